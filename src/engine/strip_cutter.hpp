#pragma once

#include "core/host_threads.hpp"
#include "engine/layer_store.hpp"
#include "plan/choose.hpp"
#include "plan/cuts.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace varve {

/// Cuts the layers of which a device cannot hold two into strips, in the plan and in the store.
template <class ExecutionSpace, class Scalar>
class StripCutter {
public:
  using Store = LayerStore<ExecutionSpace, Scalar>;

  /// All must outlive this object. The store holds all layers, `planned` has their choices.
  StripCutter(LayerChooser const& chooser, Store& store, std::vector<PlannedLayer>& planned)
      : chooser_(chooser), store_(store), planned_(planned) {}

  /// Throws ResourceError, saying how much is needed, if not even the smallest strips fit.
  void cut(NetworkSource const& source) {
    auto const numbers = store_.layers_too_large();
    for (std::size_t const number : numbers) {
      Layer const layer = source.layer(number);
      if (!fits(least_bytes(layer, number))) refuse(source, numbers);
      cut_layer(layer, number);
    }
  }

private:
  using Formats = LayerFormats<ExecutionSpace, Scalar>;
  static constexpr std::size_t strips_at_a_time = 16;

  std::size_t least_bytes(Layer const& layer, std::size_t number) const {
    return least_strip_bytes(layer.weights, chooser_.strip_shape(layer, planned_[number].choice));
  }
  bool fits(std::size_t strip_bytes) const { return 2 * strip_bytes <= store_.room_for_stream().most; }

  /// Throws the error that says what the layers of these numbers need.
  [[noreturn]] void refuse(NetworkSource const& source, std::vector<std::size_t> const& numbers) const {
    std::size_t most = 0;
    std::size_t largest = 0;
    for (std::size_t const number : numbers) {
      std::size_t const bytes = least_bytes(source.layer(number), number);
      if (bytes > most) largest = number;
      most = std::max(most, bytes);
    }
    strips_exceed_memory(store_.need_of(largest, most));
  }

  void cut_layer(Layer const& layer, std::size_t number) {
    PlannedLayer& planned = planned_[number];
    std::size_t const most = std::max(most_strip_bytes(store_.room_for_stream()), least_bytes(layer, number));
    planned.choice = chooser_.in_strips(layer, planned.choice);
    auto const strips = cut_into_strips(layer.weights, chooser_.strip_shape(layer, planned.choice), most);
    for (std::size_t first = 0; first < strips.size(); first += strips_at_a_time) {
      std::size_t const count = std::min(strips_at_a_time, strips.size() - first);
      std::vector<Layer> parts(count);
      std::vector<typename Formats::Encoded> encoded(count);
      for_each_on_host_threads(count, [&](std::size_t i) {
        parts[i] = layer_of(layer, strips[first + i]);
        encoded[i] = Formats::encode(parts[i], {planned.choice, {}, {}});
      });
      for (std::size_t i = 0; i < count; ++i) {
        store_.place_strip(number, parts[i], encoded[i]);
        planned.strips.push_back({strips[first + i], chooser_.of_strip(parts[i], planned.choice)});
      }
    }
  }

  LayerChooser const& chooser_;
  Store& store_;
  std::vector<PlannedLayer>& planned_;
};

/// Makes the image of a layer or of a strip again, for a host that cannot keep it. Keeps the layer that it read last
/// while strips of it may be asked for. May be called from several threads at a time.
template <class ExecutionSpace, class Scalar>
class PieceMaker {
public:
  using Piece = typename LayerStore<ExecutionSpace, Scalar>::Piece;

  /// The chooser must outlive this object.
  PieceMaker(LayerChooser const& chooser, std::shared_ptr<NetworkSource const> source,
             std::vector<PlannedLayer> const& planned)
      : chooser_(&chooser), source_(std::move(source)), last_(std::make_shared<LastLayer>()) {
    for (auto const& layer : planned) cuts_.push_back({layer.choice, layer.strips});
  }

  std::vector<unsigned char> operator()(Piece const& piece) const {
    auto const& [choice, strips] = cuts_[piece.layer];
    if (strips.empty()) {
      Layer const layer = source_->layer(piece.layer);
      return image_of(layer, chooser_->choose(layer, piece.layer));
    }
    auto const part =
        layer_of(*layer_to_cut(piece.layer, piece.strip + 1 == strips.size()), strips[piece.strip].outputs);
    return image_of(part, {choice, {}, {}});
  }

private:
  using Formats = LayerFormats<ExecutionSpace, Scalar>;

  struct Cut {
    LayerChoice choice;
    std::vector<PlannedStrip> strips;
  };
  struct LastLayer {
    std::mutex guard; ///< guards the members below
    std::size_t number = 0;
    std::shared_ptr<Layer const> layer; ///< null: none is kept
  };

  static std::vector<unsigned char> image_of(Layer const& layer, Encoding encoding) {
    ArraysInImage<ExecutionSpace> image;
    Formats::place(layer, Formats::encode(layer, std::move(encoding)), image);
    return image.release();
  }

  /// The whole layer, read again unless it was the last one. is_last: the last strip of the layer is asked for.
  std::shared_ptr<Layer const> layer_to_cut(std::size_t number, bool is_last) const {
    std::lock_guard const lock(last_->guard);
    if (!last_->layer || last_->number != number) {
      last_->layer = nullptr; // frees it before another is read
      last_->layer = std::make_shared<Layer const>(source_->layer(number));
      last_->number = number;
    }
    return is_last ? std::exchange(last_->layer, nullptr) : last_->layer;
  }

  LayerChooser const* chooser_;
  std::shared_ptr<NetworkSource const> source_;
  std::vector<Cut> cuts_;
  std::shared_ptr<LastLayer> last_; ///< shared, because functions are copied
};

} // namespace varve
