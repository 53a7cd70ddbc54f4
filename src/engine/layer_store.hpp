#pragma once

#include "engine/layer_formats.hpp"
#include "engine/panel.hpp"
#include "engine/weight_stream.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// The weights of a network on a device, layer by layer in the formats that the plan chose. Weights that do not fit the
/// memory limit are streamed (see WeightStream); then layer 0 has no second form, and layers of which two do not fit
/// are replaced by strips.
template <class ExecutionSpace, class Scalar>
class LayerStore {
public:
  using Formats = LayerFormats<ExecutionSpace, Scalar>;
  using Format = typename Formats::Format;
  using Encoded = typename Formats::Encoded;
  using FirstLayer = typename Formats::FirstLayer;
  using Cones = typename Formats::Cones;

  explicit LayerStore(MemoryLimits const& limits) : limits_(limits) {}

  std::size_t num_layers() const { return layers_.size(); }
  /// The format of a layer, or of a strip if the layer was cut into strips.
  Format const& format(std::size_t layer, std::size_t strip = 0) const {
    auto const& strips = layers_[layer].strips;
    return strips.empty() ? layers_[layer].whole.format : strips[strip].format;
  }
  FirstLayer const& first() const { return first_; }
  bool is_streamed() const { return is_streamed_; }
  /// Bytes of weights on the device.
  std::size_t bytes() const { return stream_ ? stream_->device_bytes() + resident_bytes_ : bytes_; }

  /// Adds the next layer, whose weights place() sets. `num_neurons`: neurons of the widest layer so far.
  void add(std::size_t num_neurons) {
    layers_.emplace_back();
    max_neurons_ = std::max(max_neurons_, num_neurons);
  }

  /// Sets the weights of the layer that was added last.
  void place(Layer const& layer, Encoded const& encoded) {
    make_room(Formats::bytes_of(encoded));
    Stored& stored = layers_.back().whole;
    if (is_streamed_) {
      stored = in_image(layer, encoded, true);
    } else {
      stored.format = Formats::place(layer, encoded, ArraysOnDevice<ExecutionSpace>());
    }
    bytes_ += std::visit([](auto const& format) { return format.bytes(); }, stored.format);
  }

  /// Sets the weights of a run of cones, the first layer of which was added last. Cones stay on the device even if
  /// other weights are streamed, because they are small.
  void place(std::span<Layer const> run, ConeRun const& cones) {
    Cones programs(run, cones);
    bytes_ += programs.bytes();
    resident_bytes_ += programs.bytes();
    layers_.back().whole.format = std::move(programs);
  }

  /// Adds the second form of layer 0; false if the device has no room for it.
  bool place_first(Layer const& layer, FirstLayerChoice const& choice) {
    auto first = Formats::place_first(layer, choice);
    std::size_t const more = bytes_of(first);
    if (is_streamed_ || bytes_ + more > room()) return false;
    first_ = std::move(first);
    bytes_ += more;
    return true;
  }

  /// To be called when all layers are placed, and before finish(): the layers of which two do not fit the room for
  /// streamed weights.
  std::vector<std::size_t> layers_too_large() {
    make_room(0);
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; is_streamed_ && number < layers_.size(); ++number) {
      if (2 * bytes_of(number) > room_for_stream().most) numbers.push_back(number);
    }
    return numbers;
  }
  /// The room for streamed weights.
  RoomForWeights room_for_stream() const {
    return {room() - std::min(room(), resident_bytes_), limits_.device_weights.has_value()};
  }
  /// What a layer whose smallest strips take up to this many bytes needs. `layer`: its number.
  StripNeed need_of(std::size_t layer, std::size_t least_strip_bytes) const {
    return {layer,
            bytes_of(layer),
            resident_bytes_ + 2 * least_strip_bytes,
            smallest_batch_bytes(),
            room(),
            limits_.device_weights.has_value()};
  }
  /// Bytes of a layer's image.
  std::size_t bytes_of(std::size_t layer) const { return layers_[layer].whole.image.num_bytes; }

  /// Adds the next strip of a layer that is too large. The first one replaces the layer.
  void place_strip(std::size_t number, Layer const& strip, Encoded const& encoded) {
    auto& [whole, strips] = layers_[number];
    kept_bytes_ -= whole.image.bytes.size();
    whole = {};
    strips.push_back(in_image(strip, encoded, false));
  }

  /// A layer, or a strip of a layer that was cut into strips.
  struct Piece {
    std::size_t layer = 0;
    std::size_t strip = 0;
  };
  /// Makes the image of a piece again; called from several threads at a time.
  using MakeImage = std::function<std::vector<unsigned char>(Piece const& piece)>;

  /// To be called when all layers and strips are placed: starts the stream if weights are streamed. maker(keeps_all)
  /// returns the function that makes images again; keeps_all: the host kept all images, so it will not be called.
  void finish(std::function<MakeImage(bool keeps_all)> const& maker) {
    make_room(0);
    if (!is_streamed_) return;
    std::vector<WeightImage> images;
    std::vector<std::size_t> piece_bytes;
    for_each_piece([&](Stored& stored, Piece const& piece) {
      pieces_.push_back(piece);
      piece_bytes.push_back(stored.image.num_bytes);
      images.push_back(std::move(stored.image));
    });
    bool const keeps_all = std::ranges::all_of(images, &WeightImage::is_kept);
    stream_ = std::make_unique<WeightStream<ExecutionSpace>>(
        plan_segments(piece_bytes, room_for_stream()), std::move(images),
        [make = maker(keeps_all), pieces = pieces_](std::size_t piece) { return make(pieces[piece]); });
    std::size_t number = 0;
    for_each_piece([&](Stored& stored, Piece const& /*piece*/) {
      for_each_streamed(stored.format, [&](auto& format) { move_arrays(format, stream_->address_of(number)); });
      ++number;
    });
  }

  /// The segment that holds a piece of streamed weights.
  std::size_t segment_of(Piece const& piece) const {
    auto const before = [](Piece const& one, Piece const& other) {
      return std::pair(one.layer, one.strip) < std::pair(other.layer, other.strip);
    };
    auto const found = std::ranges::lower_bound(pieces_, piece, before);
    return stream_->segment_of(static_cast<std::size_t>(found - pieces_.begin()));
  }

  /// The stream of weights; null if all weights are on the device.
  WeightStream<ExecutionSpace>* stream() const { return stream_.get(); }

private:
  struct Stored {
    Format format; ///< a run of cones is stored with its first layer
    WeightImage image = {};
  };
  struct StoredLayer {
    Stored whole;
    std::vector<Stored> strips; ///< replace `whole` if there are any
  };

  /// Calls visit(stored, piece) for each layer, or each of its strips if it was cut, in order.
  template <class Visit>
  void for_each_piece(Visit const& visit) {
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      auto& [whole, strips] = layers_[number];
      if (strips.empty()) visit(whole, Piece{number, 0});
      for (std::size_t strip = 0; strip < strips.size(); ++strip) visit(strips[strip], Piece{number, strip});
    }
  }

  template <class Visit>
  static void for_each_streamed(Format& format, Visit const& visit) {
    std::visit(
        [&]<class F>(F& one) {
          if constexpr (!std::is_same_v<F, Cones>) visit(one);
        },
        format);
  }

  static std::size_t bytes_of(FirstLayer const& first) {
    return std::visit(
        []<class F>(F const& format) -> std::size_t {
          if constexpr (!std::is_same_v<F, std::monostate>) return format.bytes();
          return 0;
        },
        first);
  }

  /// Bytes for weights, beside which the smallest batch must fit.
  std::size_t room() const { return room_for_weights(limits_, smallest_batch_bytes()); }

  /// Bytes of the smallest batch: two buffers of its activations, and twice as much for two batches of samples and its
  /// other arrays.
  std::size_t smallest_batch_bytes() const {
    std::size_t const sample_bytes = 6 * max_neurons_ * sizeof(Scalar) + 128;
    return Panel<ExecutionSpace, Scalar>::slot_granularity * sample_bytes;
  }

  /// If `bytes` more bytes of weights do not fit, drops the second form of layer 0; if they still do not fit, begins to
  /// stream: moves all layers into images on the host, as place() does from then on.
  void make_room(std::size_t bytes) {
    if (is_streamed_ || bytes_ + bytes <= room()) return;
    bytes_ -= bytes_of(first_);
    first_ = std::monostate();
    if (bytes_ + bytes <= room()) return;
    is_streamed_ = true;
    for (auto& layer : layers_) {
      ArraysInImage<ExecutionSpace> image;
      for_each_streamed(layer.whole.format,
                        [&](auto& format) { format.for_each_array([&](auto& array) { image.take(array); }); });
      layer.whole.image = keep(image.release(), true);
    }
  }

  /// A layer, or a strip of one, encoded in an image.
  Stored in_image(Layer const& layer, Encoded const& encoded, bool may_be_cut) {
    ArraysInImage<ExecutionSpace> image;
    auto format = Formats::place(layer, encoded, image);
    return {std::move(format), keep(image.release(), may_be_cut)};
  }

  /// Keeps an image if the host has room for it. may_be_cut: it is of a layer, so that if it is too large for the room,
  /// which only shrinks, strips will replace it.
  WeightImage keep(std::vector<unsigned char> bytes, bool may_be_cut) {
    WeightImage image{bytes.size(), {}};
    if (may_be_cut && 2 * image.num_bytes > room()) return image;
    if (kept_bytes_ + image.num_bytes > limits_.host_weights) return image;
    kept_bytes_ += image.num_bytes;
    image.bytes = std::move(bytes);
    return image;
  }

  MemoryLimits limits_;
  std::vector<StoredLayer> layers_;
  FirstLayer first_;
  std::size_t max_neurons_ = 0;
  std::size_t bytes_ = 0;
  std::size_t resident_bytes_ = 0; ///< bytes of cones, which are never streamed
  bool is_streamed_ = false;
  std::size_t kept_bytes_ = 0;                           ///< bytes of images on the host
  std::vector<Piece> pieces_;                            ///< of streamed weights, in order
  std::unique_ptr<WeightStream<ExecutionSpace>> stream_; ///< last member: its thread uses the members before it
};

} // namespace varve
