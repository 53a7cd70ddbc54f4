#pragma once

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "engine/inference.hpp"
#include "engine/sentences.hpp"
#include "engine/stretch.hpp"
#include "formats/csr.hpp"
#include "formats/output_order.hpp"
#include "formats/sliced_ell.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// A network on a device: which format and kernel each layer has got, and which layers run in one launch. Chosen once,
/// by looking at the layers:
///   - pattern blocks if outputs share input lists so well that the blocks store at most a quarter more weights than
///   there
///     are; else sliced ELL if its padding stays as small; else CSR;
///   - the fused kernel if tiles of the layer's width fit team scratch; else, on GPUs, the stationary kernel if the
///   edges of a
///     group of blocks do; else the direct kernel;
///   - once samples may leave (nothing later revives them), launches are short at first, while many leave, then long.
template <class ExecutionSpace, class Scalar, bool NarrowTiles>
class DeviceNetwork {
public:
  using Work = Stretch<ExecutionSpace, Scalar>;
  struct Entry {
    std::unique_ptr<Work> work;
    typename Work::HandOver hand_over;
    std::size_t first_layer, last_layer; ///< both inclusive
    EdgeOffset num_edges;
    std::string description;
  };

  /// Throws InputError if layers do not fit together, ResourceError if the weights exceed the limit in bytes.
  DeviceNetwork(NetworkSource const& network, InferenceOptions const& options, std::size_t memory_limit)
      : options_(options), memory_limit_(memory_limit) {
    ProfilingRegion const region("varve::prepare");
    std::vector<Layer> layers;
    for (std::size_t first = 0; first < network.num_layers(); first += layers.size()) {
      std::size_t const count = std::min(layers_at_a_time, network.num_layers() - first);
      layers.assign(count, Layer());
      std::vector<PackedLayer> packed(count);
      for_each_on_host_threads(count, [&](std::size_t i) {
        layers[i] = network.layer(first + i);
        packed[i] = pack(layers[i], first + i);
      });
      for (std::size_t i = 0; i < count; ++i) add(layers[i], packed[i]);
    }
    form_stretches();
  }

  std::size_t num_inputs() const { return num_inputs_; }
  std::size_t num_outputs() const { return num_outputs_; }
  std::size_t num_layers() const { return num_layers_; }
  std::size_t max_neurons() const { return max_neurons_; }
  EdgeOffset num_edges() const { return num_edges_; }
  std::size_t bytes() const { return bytes_; }
  std::vector<Entry> const& stretches() const { return stretches_; }

  /// For people: a line per run of stretches that are alike.
  std::vector<std::string> choices() const {
    std::vector<std::string> lines;
    for (std::size_t first = 0; first < stretches_.size();) {
      std::size_t last = first;
      while (last + 1 < stretches_.size() && stretches_[last + 1].description == stretches_[first].description) ++last;
      lines.push_back(describe_layers(stretches_[first].first_layer, stretches_[last].last_layer,
                                      stretches_[first].description, last - first + 1));
      first = last + 1;
    }
    return lines;
  }

private:
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using DirectTile = std::conditional_t<NarrowTiles, typename Tune::NarrowTile, typename Tune::Tile>;
  using FusedTile = std::conditional_t<NarrowTiles, typename Tune::NarrowFusedTile, typename Tune::FusedTile>;
  using Short = std::uint16_t;
  using Long = std::uint32_t;
  template <class Index>
  using Blocks = SlicedEll<ExecutionSpace, Scalar, Index, Tune::slice_width, Tune::chunk_size, Tune::block_outputs>;
  template <class Index>
  using Single = SlicedEll<ExecutionSpace, Scalar, Index, Tune::slice_width, Tune::chunk_size, 1>;
  template <class Index>
  using Rows = Csr<ExecutionSpace, Scalar, Index>;

  /// A layer before and after it has gone to the device.
  using PackedLayer = std::variant<std::monostate, typename Blocks<Short>::Packed, typename Single<Short>::Packed,
                                   typename Blocks<Long>::Packed, typename Single<Long>::Packed>;
  using Format = std::variant<Blocks<Short>, Single<Short>, Rows<Short>, Blocks<Long>, Single<Long>, Rows<Long>>;
  struct DeviceLayer {
    Format format;
    int width;
    EdgeOffset num_edges;
    bool keeps_zero;
  };

  static constexpr std::size_t layers_at_a_time = 16;

  static bool is_short(Layer const& layer) {
    return layer.num_inputs() <= std::size_t(std::numeric_limits<Short>::max()) + 1;
  }

  PackedLayer pack(Layer const& layer, std::size_t number) const {
    std::size_t constexpr most = std::numeric_limits<int>::max();
    if (std::max(layer.num_inputs(), layer.num_outputs()) > most) {
      layer_is_too_wide(number, layer.num_inputs(), layer.num_outputs());
    }
    return is_short(layer) ? pack_as<Short>(layer.weights) : pack_as<Long>(layer.weights);
  }

  /// Nothing for CSR, which is not packed.
  template <class Index>
  PackedLayer pack_as(SparseMatrix const& matrix) const {
    auto const may_be = [&](char const* name) { return options_.format.value_or(name) == name; };
    auto const is_cheap = [&](EdgeOffset stored) {
      return options_.format || stored <= matrix.num_entries() * 5 / 4 + 4096;
    };
    if (!may_be("pattern_blocks") && !may_be("sliced_ell")) return std::monostate();
    auto order = order_by_input_list(matrix, Tune::block_outputs);
    if (may_be("pattern_blocks") && is_cheap(Blocks<Index>::num_stored(matrix, order))) {
      return Blocks<Index>::pack(matrix, std::move(order));
    }
    if (may_be("sliced_ell") && is_cheap(Single<Index>::num_stored(matrix, order))) {
      return Single<Index>::pack(matrix, std::move(order));
    }
    return std::monostate();
  }

  void add(Layer const& layer, PackedLayer const& packed) {
    std::size_t const number = num_layers_++;
    if (number == 0) num_inputs_ = layer.num_inputs();
    if (number > 0) require_fit(num_outputs_, layer, number);
    num_outputs_ = layer.num_outputs();
    std::size_t const width = std::max(layer.num_inputs(), layer.num_outputs());
    max_neurons_ = std::max(max_neurons_, width);
    num_edges_ += layer.num_edges();
    require_room(packed, layer, number);
    layers_.push_back({to_device(layer, packed), static_cast<int>(width), layer.num_edges(), keeps_zero(layer)});
    bytes_ += std::visit([](auto const& format) { return format.bytes(); }, layers_.back().format);
  }

  void require_room(PackedLayer const& packed, Layer const& layer, std::size_t number) const {
    std::size_t const index_bytes = is_short(layer) ? sizeof(Short) : sizeof(Long);
    std::size_t more = layer.num_edges() * (index_bytes + sizeof(Scalar));
    std::visit(
        [&](auto const& arrays) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(arrays)>, std::monostate>) {
            more = arrays.indices.size() * index_bytes + arrays.weights.size() * sizeof(Scalar);
          }
        },
        packed);
    if (bytes_ + more > memory_limit_) weights_exceed_memory(number + 1, bytes_ + more, memory_limit_);
  }

  static Format to_device(Layer const& layer, PackedLayer const& packed) {
    switch (packed.index()) {
    case 1:
      return Blocks<Short>(layer, std::get<1>(packed));
    case 2:
      return Single<Short>(layer, std::get<2>(packed));
    case 3:
      return Blocks<Long>(layer, std::get<3>(packed));
    case 4:
      return Single<Long>(layer, std::get<4>(packed));
    default:
      break;
    }
    if (is_short(layer)) return Rows<Short>(layer);
    return Rows<Long>(layer);
  }

  /// Joins layers into launches and says what happens to the samples between them.
  void form_stretches() {
    std::size_t dead_for_ever = 0; // a sample that is dead after this many layers or more stays dead
    for (std::size_t number = 0; number < num_layers_; ++number) {
      if (!layers_[number].keeps_zero) dead_for_ever = number + 1;
    }
    for (std::size_t first = 0; first < num_layers_;) {
      std::size_t last = first;
      while (last + 1 < num_layers_ && joins(first, last + 1, dead_for_ever)) ++last;
      std::visit([&]<class F>(F const&) { add_stretch<F>(first, last, dead_for_ever); }, layers_[first].format);
      first = last + 1;
    }
    for (std::size_t i = 0; i + 1 < stretches_.size(); ++i) {
      stretches_[i].hand_over.tile_samples = stretches_[i + 1].work->tile_samples();
    }
    stretches_.back().hand_over = {true, false, stretches_.back().work->tile_samples()};
    layers_.clear();
  }

  /// True if a layer goes into the launch that begins with layer `first`.
  bool joins(std::size_t first, std::size_t number, std::size_t dead_for_ever) const {
    bool const same_kind = layers_[number].format.index() == layers_[first].format.index();
    return same_kind && is_fused(layers_[first]) && is_fused(layers_[number]) && !packs_before(number, dead_for_ever);
  }

  bool is_fused(DeviceLayer const& layer) const {
    bool const can_be = layer.format.index() < 2 && layer.width <= Tune::max_fused_neurons;
    return can_be && options_.kernel.value_or("fused") == "fused";
  }

  /// True if the live samples are packed before this layer: never before dead samples stay dead, then often, then
  /// seldom. Measured on the challenge's data, where half of the samples leave within four layers and nearly all within
  /// nine.
  static bool packs_before(std::size_t number, std::size_t dead_for_ever) {
    if (number <= dead_for_ever) return number == dead_for_ever && number > 0;
    std::size_t const since = number - dead_for_ever;
    return since >= 3 && since <= 9;
  }

  /// The other kernels compact by a pass over the panel, which costs about as much as a layer: not before a good part
  /// has left (as above), and at every eighth layer later.
  static bool compacts_after(std::size_t number, std::size_t dead_for_ever) {
    std::size_t const done = number + 1;
    if (done < dead_for_ever) return false;
    std::size_t const since = done - dead_for_ever;
    return (since >= 3 && since <= 6) || (since >= 8 && since <= 16 && since % 2 == 0) ||
           (since > 16 && since % 8 == 0);
  }

  template <class F>
  void add_stretch(std::size_t first, std::size_t last, std::size_t dead_for_ever) {
    Entry entry;
    entry.first_layer = first;
    entry.last_layer = last;
    entry.num_edges = 0;
    for (std::size_t number = first; number <= last; ++number) entry.num_edges += layers_[number].num_edges;
    entry.hand_over.keeps_dead = last + 1 < dead_for_ever;
    entry.hand_over.compacts = compacts_after(last, dead_for_ever);
    bool const is_one_launch = is_fused(layers_[first]);
    if constexpr (std::is_same_v<F, Blocks<Short>> || std::is_same_v<F, Single<Short>>) {
      if (is_one_launch) {
        std::vector<F> formats;
        for (std::size_t number = first; number <= last; ++number)
          formats.push_back(std::get<F>(std::move(layers_[number].format)));
        entry.work = std::make_unique<FusedStretch<ExecutionSpace, F, FusedTile>>(std::move(formats),
                                                                                  first + 1 >= dead_for_ever);
      }
    }
    bool is_stationary = false;
    if (!is_one_launch) {
      using Direct = DirectStretch<ExecutionSpace, F, DirectTile>;
      F format = std::get<F>(std::move(layers_[first].format));
      if constexpr (Direct::can_be_stationary) {
        is_stationary = options_.kernel.value_or("stationary") == "stationary" &&
                        can_be_stationary<DirectTile, ExecutionSpace>(format);
      }
      entry.work = std::make_unique<Direct>(std::move(format), is_stationary);
    }
    entry.description = std::string(is_one_launch   ? "fused"
                                    : is_stationary ? "stationary"
                                                    : "direct") +
                        " kernel, " + name_of<F>() + ", " + std::to_string(8 * sizeof(typename F::Index)) +
                        "-bit indices";
    stretches_.push_back(std::move(entry));
  }

  template <class F>
  static std::string name_of() {
    if constexpr (std::is_same_v<F, Rows<typename F::Index>>) return "CSR";
    if constexpr (F::block_outputs == 1) return "sliced ELL";
    return "pattern blocks of " + std::to_string(F::block_outputs) + " outputs";
  }

  InferenceOptions options_;
  std::size_t memory_limit_;
  std::vector<DeviceLayer> layers_; ///< until they are in stretches
  std::vector<Entry> stretches_;
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t num_layers_ = 0;
  std::size_t max_neurons_ = 0;
  EdgeOffset num_edges_ = 0;
  std::size_t bytes_ = 0;
};

} // namespace varve
