#pragma once

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "engine/inference.hpp"
#include "engine/layer_slices.hpp"
#include "engine/sentences.hpp"
#include "engine/stretch.hpp"
#include "formats/csr.hpp"
#include "formats/output_order.hpp"
#include "formats/sliced_ell.hpp"
#include "formats/staged_blocks.hpp"
#include "passes/saturation.hpp"

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
///   - pattern blocks, if outputs share inputs so well that the blocks store at most twice as many weights as there are
///     (a fma of a block costs half of what one costs that loads its own input, or less; in the fused kernel see
///     tuning);
///   - else, in layers too wide for the fused kernel, staged blocks, if outputs share inputs;
///   - else sliced ELL, if padding stores at most a quarter more weights; else CSR;
///   - the fused kernel, if tiles of the layer's width fit team scratch; else the kernel that the format is for;
///   - the first layer alone, stored once more as sliced ELL, to read samples whose values are all equal as bits;
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
    LayerChoice choice;
  };

  /// Throws InputError if layers do not fit together, ResourceError if the weights exceed the limit in bytes. `slices`:
  /// the network, if it is one rank's part of a larger one; then every layer is a stretch of its own.
  DeviceNetwork(NetworkSource const& network, InferenceOptions const& options, std::size_t memory_limit,
                LayerSlices const* slices = nullptr)
      : options_(options), memory_limit_(memory_limit), slices_(slices) {
    ProfilingRegion const region("varve::prepare");
    std::vector<Layer> layers;
    for (std::size_t first = 0; first < network.num_layers(); first += layers.size()) {
      std::size_t const count = std::min(layers_at_a_time, network.num_layers() - first);
      layers.assign(count, Layer());
      std::vector<Packed> packed(count);
      std::vector<double> kept_caps(count, 0.0);
      for_each_on_host_threads(count, [&](std::size_t i) {
        layers[i] = network.layer(first + i);
        packed[i] = pack(layers[i], first + i);
        if (options_.reductions.saturation) kept_caps[i] = kept_cap<Scalar>(layers[i]);
      });
      for (std::size_t i = 0; i < count; ++i) add(layers[i], packed[i], kept_caps[i]);
      if (first == 0 && network.num_layers() > 1) add_binary(layers[0]);
    }
    form_stretches();
  }

  std::size_t num_inputs() const { return num_inputs_; }
  std::size_t num_outputs() const { return num_outputs_; }
  std::size_t num_layers() const { return num_layers_; }
  /// Neurons of the widest layer, the inputs included unless samples come as bits.
  std::size_t max_neurons(bool reads_bits) const {
    return reads_bits ? max_outputs_ : std::max(max_outputs_, num_inputs_);
  }

  /// True if samples whose values are all equal are read as bits.
  bool can_read_bits() const { return can_read_bits_; }

  EdgeOffset num_edges() const { return num_edges_; }
  std::size_t bytes() const { return bytes_; }
  std::vector<Entry> const& stretches() const { return stretches_; }

  /// A sample that is saturated after this many layers or more is saturated at the end; num_layers(): none is.
  std::size_t saturates_from() const { return saturates_from_; }

  /// For people: one choice per run of stretches that are alike.
  std::vector<LayerChoice> choices() const {
    std::vector<LayerChoice> runs;
    for (auto const& stretch : stretches_) {
      if (!runs.empty() && runs.back().is_like(stretch.choice)) {
        runs.back().append(stretch.choice);
      } else {
        runs.push_back(stretch.choice);
      }
    }
    return runs;
  }

private:
  using Tune = Tuning<ExecutionSpace, Scalar>;
  template <class Wide, class Narrow>
  using Choose = std::conditional_t<NarrowTiles, Narrow, Wide>;
  using DirectTile = Choose<typename Tune::Tile, typename Tune::NarrowTile>;
  using WideBlockTile = Choose<typename Tune::WideBlockTile, typename Tune::NarrowWideBlockTile>;
  template <class Format, FusedWidth Width>
  using FusedTune = FusedTuning<ExecutionSpace, Scalar, Format::block_outputs, Width>;
  template <class FusedTuning>
  using FusedTile = Choose<typename FusedTuning::Tile, typename FusedTuning::NarrowTile>;
  using StagedTile = Choose<typename Tune::StagedTile, typename Tune::NarrowStagedTile>;
  using Short = std::uint16_t;
  using Long = std::uint32_t;

  // Formats by what they are for. On CPUs, wide and fused blocks are the same.
  using FusedBlocks =
      SlicedEll<ExecutionSpace, Scalar, Short, Tune::slice_width, Tune::chunk_size, Tune::block_outputs>;
  template <class Index>
  using WideBlocks = SlicedEll<ExecutionSpace, Scalar, Index, 1, Tune::chunk_size, Tune::wide_block_outputs>;
  template <class Index>
  using Single = SlicedEll<ExecutionSpace, Scalar, Index, Tune::slice_width, Tune::chunk_size, 1>;
  using Staged = StagedBlocks<ExecutionSpace, Scalar, Tune::staged_slice_width, Tune::chunk_size, 1>;
  template <class Index>
  using Rows = Csr<ExecutionSpace, Scalar, Index>;

  static constexpr bool has_own_fused_blocks = !std::is_same_v<FusedBlocks, WideBlocks<Short>>;
  template <class Fused, class... Others>
  using VariantOf = std::conditional_t<has_own_fused_blocks, std::variant<Fused, Others...>, std::variant<Others...>>;
  using Format = VariantOf<FusedBlocks, WideBlocks<Short>, WideBlocks<Long>, Single<Short>, Single<Long>, Staged,
                           Rows<Short>, Rows<Long>>;

  /// A layer before it goes to the device; CSR is not packed.
  struct Unpacked {
    std::size_t bytes() const { return 0; }
  };
  using Packed =
      VariantOf<typename FusedBlocks::Packed, typename WideBlocks<Short>::Packed, typename WideBlocks<Long>::Packed,
                typename Single<Short>::Packed, typename Single<Long>::Packed, typename Staged::Packed, Unpacked>;
  struct DeviceLayer {
    Format format;
    std::size_t width; ///< the larger of inputs and outputs
    FusedWidth fused_width;
    double cap; ///< 0: none
    EdgeOffset num_edges;
    bool keeps_zero;
    double kept_cap; ///< if the layer maps samples all of whose activations are its cap to such: the cap; else 0
  };

  static constexpr std::size_t layers_at_a_time = 16;

  bool may_use(FormatName name) const {
    return options_.formats.empty() || std::ranges::find(options_.formats, name) != options_.formats.end();
  }

  /// True if no format that comes later in the order of preference may be used.
  bool is_last(FormatName name) const {
    return !options_.formats.empty() && may_use(name) && *std::ranges::max_element(options_.formats) == name;
  }

  static bool is_short(Layer const& layer) {
    return layer.num_inputs() <= std::size_t(std::numeric_limits<Short>::max()) + 1;
  }

  Packed pack(Layer const& layer, std::size_t number) const {
    std::size_t constexpr most = std::numeric_limits<int>::max();
    if (std::max(layer.num_inputs(), layer.num_outputs()) > most) {
      layer_is_too_wide(number, layer.num_inputs(), layer.num_outputs());
    }
    return is_short(layer) ? pack_as<Short>(layer, number) : pack_as<Long>(layer, number);
  }

  /// The first format, in the order of preference, that may be used and is cheap; without one, the last that may be
  /// used (staged blocks, which not every layer can have, give way to sliced ELL).
  template <class Index>
  Packed pack_as(Layer const& layer, std::size_t number) const {
    SparseMatrix const& matrix = layer.weights;
    auto const is_cheap = [&](EdgeOffset stored, double factor) {
      return static_cast<double>(stored) <= static_cast<double>(matrix.num_entries()) * factor + 512.0;
    };
    // Where tiles are small, launches cost more than padding: then all layers should have one format.
    std::string const kernel = options_.kernel.value_or("");
    bool const fuses = is_short(layer) && fits_fused(width_of(layer)) && (kernel.empty() || kernel == "fused");
    constexpr EdgeOffset many_edges = 64; // of an output; with fewer, other things than edges take the time
    bool const has_long_lists = matrix.num_entries() >= many_edges * matrix.num_rows;
    double const most_in_blocks = is_narrow(width_of(layer)) ? 1.25
                                  : fuses && has_long_lists  ? Tune::most_stored_in_fused_blocks
                                                             : 2.0;
    if (may_use(FormatName::pattern_blocks) && (kernel != "staged" || is_last(FormatName::pattern_blocks))) {
      constexpr auto early_layers = static_cast<std::ptrdiff_t>(Tune::stationary_layers_before_fused);
      bool const is_early =
          static_cast<std::ptrdiff_t>(number) < early_layers && kernel.empty() && !is_narrow(width_of(layer));
      auto const pack_if_cheap = [&]<class Blocks>(Blocks) -> std::optional<Packed> {
        auto order = order_by_input_list(matrix, Blocks::block_outputs);
        if (!is_last(FormatName::pattern_blocks) && !is_cheap(Blocks::num_stored(matrix, order), most_in_blocks))
          return std::nullopt;
        if constexpr (std::is_same_v<Blocks, WideBlocks<Index>> && Tune::prefers_stationary) {
          order = chain_blocks(matrix, order, Blocks::block_outputs, Tune::stationary_blocks);
        }
        return Blocks::pack(matrix, std::move(order));
      };
      if (fuses && is_early) { // while its weights fit the stationary kernel's scratch
        auto packed = pack_if_cheap(WideBlocks<Index>());
        using Wide = typename WideBlocks<Index>::Packed;
        if (packed && can_be_stationary<typename Tune::StationaryTile, ExecutionSpace>(std::get<Wide>(*packed)))
          return std::move(*packed);
      }
      auto packed = fuses ? pack_if_cheap(FusedBlocks()) : pack_if_cheap(WideBlocks<Index>());
      if (packed) return std::move(*packed);
    }
    if (may_use(FormatName::staged_blocks) &&
        (is_last(FormatName::staged_blocks) || kernel == "staged" || (!fuses && kernel.empty()))) {
      bool const at_any_cost = is_last(FormatName::staged_blocks) || kernel == "staged";
      auto packed = Staged::pack(matrix, Tune::max_staged_inputs, Tune::max_staged_outputs,
                                 at_any_cost ? 0.0 : Tune::min_staged_uses);
      if (packed) return std::move(*packed);
    }
    if (may_use(FormatName::sliced_ell) || is_last(FormatName::staged_blocks)) {
      auto order = order_by_input_list(matrix, 1);
      // A fused layer may be padded to a chunk per output: a row of CSR would end the launch.
      EdgeOffset const in_chunks = fuses ? matrix.num_rows * Tune::chunk_size : 0;
      EdgeOffset const stored = Single<Index>::num_stored(matrix, order);
      if (is_last(FormatName::sliced_ell) || is_cheap(stored - std::min(stored, in_chunks), 1.25))
        return Single<Index>::pack(matrix, std::move(order));
    }
    return Unpacked();
  }

  void add(Layer const& layer, Packed const& packed, double kept_cap) {
    std::size_t const number = num_layers_++;
    if (number == 0) num_inputs_ = layer.num_inputs();
    if (number > 0) require_fit(num_outputs_, layer, number);
    num_outputs_ = slices_ == nullptr ? layer.num_outputs() : slices_->whole(number).num_outputs();
    max_outputs_ = std::max(max_outputs_, num_outputs_);
    num_edges_ += layer.num_edges();
    require_room(packed, layer, number);
    double const cap = layer.activation.kind == ActivationKind::clipped_relu ? layer.activation.cap : 0.0;
    Format format = to_device(layer, packed);
    FusedWidth const fused_width = fused_width_of(format, width_of(layer));
    bool const whole_keeps_zero = slices_ == nullptr ? keeps_zero(layer) : slices_->whole(number).keeps_zero;
    layers_.push_back(
        {std::move(format), width_of(layer), fused_width, cap, layer.num_edges(), whole_keeps_zero, kept_cap});
    bytes_ += std::visit([](auto const& format) { return format.bytes(); }, layers_.back().format);
  }

  /// Sees to it that the first layer can read bits: the stationary kernel does; for others the layer is stored once
  /// more, if outputs are padded little and there is nothing that says otherwise.
  void add_binary(Layer const& layer) {
    can_read_bits_ = std::visit([&](auto const& format) { return is_stationary(format); }, layers_.front().format);
    if (can_read_bits_ || options_.kernel || !may_use(FormatName::sliced_ell)) return;
    if (is_short(layer)) {
      add_binary_as<Short>(layer);
    } else {
      add_binary_as<Long>(layer);
    }
  }

  template <class Index>
  void add_binary_as(Layer const& layer) {
    using Ell = Single<Index>;
    auto order = order_by_input_list(layer.weights, 1);
    EdgeOffset const stored = Ell::num_stored(layer.weights, order);
    constexpr auto slice = static_cast<EdgeOffset>(Ell::slice_width) * Ell::chunk_size;
    if (stored > 2 * layer.num_edges() + slice * (layer.num_outputs() / Ell::slice_width + 1)) return;
    auto const packed = Ell::pack(layer.weights, std::move(order));
    if (bytes_ + packed.bytes() > memory_limit_) return;
    binary_ = Ell(layer, packed);
    bytes_ += std::get<Ell>(binary_).bytes();
    can_read_bits_ = true;
  }

  void require_room(Packed const& packed, Layer const& layer, std::size_t number) const {
    std::size_t const packed_bytes = std::visit([](auto const& arrays) { return arrays.bytes(); }, packed);
    std::size_t const row_bytes =
        layer.num_edges() * ((is_short(layer) ? sizeof(Short) : sizeof(Long)) + sizeof(Scalar));
    std::size_t const more = packed_bytes > 0 ? packed_bytes : row_bytes;
    if (bytes_ + more > memory_limit_) weights_exceed_memory(number + 1, bytes_ + more, memory_limit_);
  }

  static Format to_device(Layer const& layer, Packed const& packed) {
    return std::visit(
        [&](auto const& arrays) -> Format {
          if constexpr (std::is_same_v<std::decay_t<decltype(arrays)>, Unpacked>) {
            if (is_short(layer)) return Rows<Short>(layer);
            return Rows<Long>(layer);
          } else {
            return typename std::decay_t<decltype(arrays)>::Format(layer, arrays);
          }
        },
        packed);
  }

  /// The smallest number of layers after which a saturated sample is saturated for ever: every layer to come maps the
  /// vector of caps to itself. The number of layers if there is none.
  std::size_t find_saturation() const {
    std::size_t from = num_layers_;
    while (from > 1 && layers_[from - 1].kept_cap > 0.0 && layers_[from - 1].kept_cap == layers_.back().kept_cap)
      --from;
    // After the layer before, whose cap must be the same.
    if (from < num_layers_ && layers_[from - 1].cap != layers_.back().kept_cap) ++from;
    return from;
  }

  /// Joins layers into launches and says what happens to the samples between them.
  void form_stretches() {
    saturates_from_ = find_saturation();
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
    auto& last = stretches_.back().hand_over;
    last.lists = true;
    last.tile_samples = stretches_.back().work->tile_samples();
    layers_.clear();
  }

  /// True if a layer goes into the launch that begins with layer `first`.
  bool joins(std::size_t first, std::size_t number, std::size_t dead_for_ever) const {
    if (first == 0 && can_read_bits()) return false;
    bool const same_kind = layers_[number].format.index() == layers_[first].format.index() &&
                           layers_[number].fused_width == layers_[first].fused_width;
    return same_kind && is_fused(layers_[first]) && is_fused(layers_[number]) && !packs_before(number, dead_for_ever);
  }

  static std::size_t width_of(Layer const& layer) { return std::max(layer.num_inputs(), layer.num_outputs()); }

  bool fits_fused(std::size_t width) const {
    return slices_ == nullptr && width <= std::size_t(FusedTune<Single<Short>, FusedWidth::wide>::max_neurons);
  }

  template <FusedWidth Width>
  static bool is_within(std::size_t width) {
    return Tune::has_fused_widths && width <= std::size_t(FusedTune<Single<Short>, Width>::max_neurons);
  }
  static bool is_narrow(std::size_t width) { return is_within<FusedWidth::narrow>(width); }

  /// The narrowest that the layer fits, its image included.
  static FusedWidth fused_width_of(Format const& format, std::size_t width) {
    bool const has_image = std::visit(
        []<class F>(F const& layer) {
          if constexpr (std::is_same_v<F, FusedBlocks> || std::is_same_v<F, Single<Short>>)
            return LayerImages<ExecutionSpace, F>::bytes_of(layer) <= Tune::max_image_bytes;
          return false;
        },
        format);
    if (is_narrow(width) && has_image) return FusedWidth::narrow;
    return is_within<FusedWidth::medium>(width) ? FusedWidth::medium : FusedWidth::wide;
  }

  bool is_fused(DeviceLayer const& layer) const {
    bool const has_format =
        std::holds_alternative<FusedBlocks>(layer.format) || std::holds_alternative<Single<Short>>(layer.format);
    return has_format && fits_fused(layer.width) && options_.kernel.value_or("fused") == "fused";
  }

  /// True if the live samples are packed before this layer of a fused kernel: never before dead samples stay dead, then
  /// often, then seldom. Measured on the challenge's data, where half of the samples leave within four layers and
  /// nearly all within nine.
  bool packs_before(std::size_t number, std::size_t dead_for_ever) const {
    if (number <= dead_for_ever) return number == dead_for_ever && number > 0;
    std::size_t const since = number - dead_for_ever;
    if (layers_[number].fused_width == FusedWidth::narrow)
      return since == 3 || since == 5 || since == 8; // a launch costs a layer
    return since >= 3 && since <= 9;
  }

  /// True if the live samples are listed after this layer. A kernel that reads lists pays two short launches for one;
  /// the others must move the samples together, which costs about as much as a layer: not before a good part has left.
  static bool lists_after(std::size_t number, std::size_t dead_for_ever, bool reads_lists) {
    std::size_t const done = number + 1;
    if (done < dead_for_ever) return false;
    std::size_t const since = done - dead_for_ever;
    if (since > 16) return since % (since > 32 ? 8 : 4) == 0;
    if (reads_lists) return since >= 2;
    return (since >= 3 && since <= 6) || (since >= 8 && since % 2 == 0);
  }

  /// True if equal samples are joined after the launch that ends with this layer. A look costs as much as several short
  /// launches and reads the panel once or twice, so it pays when what is left is many layers of samples that have
  /// become alike; and not where saturated samples leave, who are those that are equal (measured: perf/RESULTS.md). The
  /// first look that finds little is the last.
  bool joins_after(std::size_t number, std::size_t dead_for_ever) const {
    std::size_t const done = number + 1;
    bool const looks = options_.reductions.equal_samples && saturates_from_ == num_layers_;
    if (!looks || done < dead_for_ever || done + 8 > num_layers_) return false;
    std::size_t const since = done - dead_for_ever;
    return since == 8 || since == 9 || since == 16 || since == 24 || since == 32 || since == 64;
  }

  template <class F>
  void add_stretch(std::size_t first, std::size_t last, std::size_t dead_for_ever) {
    Entry entry;
    entry.first_layer = first;
    entry.last_layer = last;
    entry.num_edges = 0;
    for (std::size_t number = first; number <= last; ++number) {
      entry.num_edges += layers_[number].num_edges;
      F const& format = std::get<F>(layers_[number].format);
      if constexpr (std::is_same_v<F, Staged>) {
        entry.choice.num_stored += format.blocks.weights.size();
        entry.choice.num_staged_inputs += format.inputs.size();
      } else {
        entry.choice.num_stored += format.weights.size();
      }
    }
    entry.hand_over.keeps_dead = last + 1 < dead_for_ever;
    entry.hand_over.joins_equal = joins_after(last, dead_for_ever);
    entry.hand_over.lists_done = saturates_from_ < num_layers_ && last + 1 >= saturates_from_ + 15;
    if (saturates_from_ < num_layers_) entry.hand_over.cap = static_cast<Scalar>(layers_.back().kept_cap);
    if (is_fused(layers_[first])) {
      add_fused<F>(entry, dead_for_ever);
    } else {
      add_layer_kernel(entry, std::get<F>(std::move(layers_[first].format)), dead_for_ever);
    }
    if (first == 0 && can_read_bits()) {
      entry.work = std::visit(
          [&]<class Binary>(Binary& binary) -> std::unique_ptr<Work> {
            if constexpr (std::is_same_v<Binary, std::monostate>) {
              return std::move(entry.work);
            } else {
              return std::make_unique<BinaryStretch<ExecutionSpace, Binary>>(std::move(binary), std::move(entry.work));
            }
          },
          binary_);
      entry.choice.reads_bits = true;
    }
    entry.choice.first_layer = first;
    entry.choice.last_layer = last;
    entry.choice.format = name_of<F>();
    entry.choice.index_bits = 8 * static_cast<int>(sizeof(typename F::Index));
    entry.choice.num_edges = entry.num_edges;
    stretches_.push_back(std::move(entry));
  }

  template <class F>
  void add_fused(Entry& entry, std::size_t dead_for_ever) {
    if constexpr (std::is_same_v<F, FusedBlocks> || std::is_same_v<F, Single<Short>>) {
      if constexpr (Tune::has_fused_widths) {
        FusedWidth const width = layers_[entry.first_layer].fused_width;
        if (width == FusedWidth::narrow)
          return add_fused_with<F, FusedTune<F, FusedWidth::narrow>>(entry, dead_for_ever);
        if (width == FusedWidth::medium)
          return add_fused_with<F, FusedTune<F, FusedWidth::medium>>(entry, dead_for_ever);
      }
      add_fused_with<F, FusedTune<F, FusedWidth::wide>>(entry, dead_for_ever);
    }
  }

  template <class F, class FusedTuning>
  void add_fused_with(Entry& entry, std::size_t dead_for_ever) {
    std::vector<F> formats;
    for (std::size_t number = entry.first_layer; number <= entry.last_layer; ++number)
      formats.push_back(std::get<F>(std::move(layers_[number].format)));
    int saturates_from = std::numeric_limits<int>::max();
    if (saturates_from_ < num_layers_)
      saturates_from = static_cast<int>(saturates_from_ - std::min(saturates_from_, entry.first_layer));
    entry.work = std::make_unique<FusedStretch<ExecutionSpace, F, FusedTile<FusedTuning>, FusedTuning>>(
        std::move(formats), entry.first_layer + 1 >= dead_for_ever, saturates_from);
    entry.choice.kernel = "fused";
  }

  template <class F>
  void add_layer_kernel(Entry& entry, F format, std::size_t dead_for_ever) {
    auto const use = [&]<class Tile, class Kernel>(Tile, Kernel, char const* name) {
      entry.work = std::make_unique<LayerStretch<ExecutionSpace, F, Tile, Kernel>>(std::move(format));
      entry.hand_over.lists = lists_after(entry.last_layer, dead_for_ever, Kernel::reads_lists);
      entry.choice.kernel = name;
    };
    if constexpr (std::is_same_v<F, Staged>) {
      use(StagedTile(), StagedKernel(), "staged");
    } else if constexpr (std::is_same_v<F, WideBlocks<typename F::Index>>) {
      if (is_stationary(format)) {
        use(typename Tune::StationaryTile(), StationaryKernel(), "stationary");
      } else {
        use(WideBlockTile(), DirectKernel(), "direct");
      }
    } else {
      use(DirectTile(), DirectKernel(), "direct");
    }
  }

  /// True if the stationary kernel gets a layer of this format, unless the layer is fused.
  template <class F>
  bool is_stationary(F const& format) const {
    if constexpr (std::is_same_v<F, WideBlocks<typename F::Index>>) {
      return options_.kernel.value_or(Tune::prefers_stationary ? "stationary" : "direct") == "stationary" &&
             can_be_stationary<typename Tune::StationaryTile, ExecutionSpace>(format);
    }
    return false;
  }

  template <class F>
  static std::string name_of() {
    if constexpr (std::is_same_v<F, Rows<typename F::Index>>) return "CSR";
    if constexpr (std::is_same_v<F, Staged>) return "staged blocks";
    if constexpr (F::block_outputs == 1) return "sliced ELL";
    return "pattern blocks of " + std::to_string(F::block_outputs) + " outputs";
  }

  InferenceOptions options_;
  std::size_t memory_limit_;
  LayerSlices const* slices_;
  std::vector<DeviceLayer> layers_;                                  ///< until they are in stretches
  std::variant<std::monostate, Single<Short>, Single<Long>> binary_; ///< the first layer for samples as bits
  bool can_read_bits_ = false;
  std::vector<Entry> stretches_;
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t num_layers_ = 0;
  std::size_t saturates_from_ = 0;
  std::size_t max_outputs_ = 0;
  EdgeOffset num_edges_ = 0;
  std::size_t bytes_ = 0;
};

} // namespace varve
