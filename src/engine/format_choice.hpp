#pragma once

#include "core/error.hpp"
#include "engine/inference.hpp"
#include "engine/sentences.hpp"
#include "engine/stretch.hpp"
#include "formats/cone_programs.hpp"
#include "formats/cones.hpp"
#include "formats/counted_layer.hpp"
#include "formats/csr.hpp"
#include "formats/sliced_ell.hpp"
#include "formats/staged_blocks.hpp"
#include "passes/edge_order.hpp"
#include "passes/output_order.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// The formats that layers may have on an execution space, by what they are for, and the tiles that their kernels take.
template <class ExecutionSpace, class Scalar, bool NarrowTiles>
struct LayerFormats {
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
  using ConeTile = Choose<typename Tune::ConeTile, typename Tune::NarrowConeTile>;
  using Cones = ConePrograms<ExecutionSpace, Scalar, Tune::cone_group_size, ConeTile::num_samples * sizeof(Scalar)>;
  static_assert(Tune::cone_slots * Cones::slot_bytes <= 65536);
  using SpreadTile = Choose<typename Tune::SpreadTile, typename Tune::NarrowSpreadTile>;
  using Counted = CountedLayer<ExecutionSpace, Scalar>;

  static constexpr bool has_own_fused_blocks = !std::is_same_v<FusedBlocks, WideBlocks<Short>>;
  template <class Fused, class... Others>
  using VariantOf = std::conditional_t<has_own_fused_blocks, std::variant<Fused, Others...>, std::variant<Others...>>;
  using Format = VariantOf<FusedBlocks, WideBlocks<Short>, WideBlocks<Long>, Single<Short>, Single<Long>, Staged,
                           Rows<Short>, Rows<Long>, Cones>;

  /// A layer before it goes to the device; CSR is not packed.
  struct Unpacked {
    std::size_t bytes() const { return 0; }
  };
  using Packed =
      VariantOf<typename FusedBlocks::Packed, typename WideBlocks<Short>::Packed, typename WideBlocks<Long>::Packed,
                typename Single<Short>::Packed, typename Single<Long>::Packed, typename Staged::Packed, Unpacked>;

  static std::size_t width_of(Layer const& layer) { return std::max(layer.num_inputs(), layer.num_outputs()); }

  static bool is_short(Layer const& layer) {
    return layer.num_inputs() <= std::size_t(std::numeric_limits<Short>::max()) + 1;
  }

  template <class Arrays>
  static Format make_format(Layer const& layer, Packed const& packed, Arrays&& arrays) {
    return std::visit(
        [&]<class AnyPacked>(AnyPacked const& any_packed) -> Format {
          if constexpr (std::is_same_v<AnyPacked, Unpacked>) {
            if (is_short(layer)) return Rows<Short>(layer, arrays);
            return Rows<Long>(layer, arrays);
          } else {
            return typename AnyPacked::Format(layer, any_packed, arrays);
          }
        },
        packed);
  }

  static std::size_t bytes_of(Packed const& packed, Layer const& layer) {
    std::size_t const packed_bytes = std::visit([](auto const& arrays) { return arrays.bytes(); }, packed);
    std::size_t const row_bytes =
        layer.num_edges() * ((is_short(layer) ? sizeof(Short) : sizeof(Long)) + sizeof(Scalar));
    return packed_bytes > 0 ? packed_bytes : row_bytes;
  }

  template <class F>
  static std::string name_of() {
    if constexpr (std::is_same_v<F, Rows<typename F::Index>>) return "CSR";
    if constexpr (std::is_same_v<F, Staged>) return "staged blocks";
    if constexpr (std::is_same_v<F, Cones>) return "programs";
    if constexpr (!std::is_same_v<F, Cones>) {
      if (F::block_outputs == 1) return "sliced ELL";
      return "pattern blocks of " + std::to_string(F::block_outputs) + " outputs";
    }
  }
};

/// Which format each layer gets, and which kernel may take it: see DeviceNetwork for the rules.
template <class ExecutionSpace, class Scalar, bool NarrowTiles>
class FormatChoice {
public:
  using Formats = LayerFormats<ExecutionSpace, Scalar, NarrowTiles>;
  using Format = typename Formats::Format;
  using Packed = typename Formats::Packed;

  /// `is_split`: the network is one rank's part of the neurons of a larger one, which no kernel takes through several
  /// layers.
  FormatChoice(InferenceOptions const& options, bool is_split)
      : options_(options),
        is_split_(is_split),
        has_few_samples_(options.kernel ? *options.kernel == "spread"
                                        : options.expected_samples &&
                                              *options.expected_samples < Tune::few_samples(ExecutionSpace())),
        spreads_(has_few_samples_ && (options.kernel || Tune::prefers_spread)) {}

  bool may_use(FormatName name) const {
    return options_.formats.empty() || std::ranges::find(options_.formats, name) != options_.formats.end();
  }

  /// Packs a layer, of this number, in the format that it gets. Throws InputError if it is too wide.
  Packed pack(Layer const& layer, std::size_t number) const {
    std::size_t constexpr most = std::numeric_limits<int>::max();
    if (std::max(layer.num_inputs(), layer.num_outputs()) > most) {
      layer_is_too_wide(number, layer.num_inputs(), layer.num_outputs());
    }
    return is_short(layer) ? pack_as<Short>(layer, number) : pack_as<Long>(layer, number);
  }

  /// In which order outputs are stored one by one: those that read the same side by side, or, where edges were ordered
  /// against bank conflicts, those that were ordered together.
  static std::vector<NeuronIndex> order_of_singles(SparseMatrix const& matrix) {
    return is_ascending(matrix) ? order_by_input_list(matrix, 1) : balance_outputs(matrix);
  }

  /// The run of cones that a layer is in.
  struct InRun {
    std::size_t num_layers = 0; ///< 0: in none
    bool is_first = false;
    ConeRun cones; ///< with the first layer
  };

  /// Which of these layers, the first of which has this number, form cones. Layer 0 takes the samples and is by itself.
  std::vector<InRun> find_cone_runs(std::vector<Layer> const& layers, std::size_t number) const {
    std::vector<InRun> runs(layers.size());
    if (!may_use_cones() || is_split_) return runs;
    constexpr double at_any_cost = 1e9;
    double const other_cost = is_last(FormatName::cones) || options_.kernel ? at_any_cost : Tune::cone_other_cost;
    constexpr std::size_t slot_bytes = Tune::cone_slots * Cones::slot_bytes;
    constexpr std::size_t round_bytes = Tune::cone_group_size * (sizeof(typename Cones::Move) + sizeof(double));
    ConeLimits const limits{Tune::cone_slots, static_cast<std::size_t>(Tune::cone_group_size),
                            (Tune::max_cone_bytes - slot_bytes) / round_bytes};
    for (std::size_t first = number == 0 ? 1 : 0; first < layers.size();) {
      std::size_t last = first;
      while (last < layers.size() && is_short(layers[last]) && suits_cones(layers[last]) &&
             Cones::agree(layers[first], layers[last]) &&
             (last == first || layers[last].num_inputs() == layers[last - 1].num_outputs()))
        ++last;
      auto const part = std::span<Layer const>(layers).subspan(first, last - first);
      for (auto& [first_layer, run] : place_cone_runs(part, limits, other_cost)) {
        std::size_t const count = run.num_layers;
        for (std::size_t i = 0; i < count; ++i) runs[first + first_layer + i].num_layers = count;
        runs[first + first_layer].is_first = true;
        runs[first + first_layer].cones = std::move(run);
      }
      first = std::max(last, first + 1);
    }
    return runs;
  }

  /// The narrowest that the layer fits, its image included; but where all samples have room on the device at a time in
  /// the smallest tiles, these give it the most to do at a time.
  FusedWidth fused_width_of(Format const& format, std::size_t width) const {
    if (has_room_in_small_tiles()) return FusedWidth::wide;
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

  /// True if the fused kernel takes layers of this format and width.
  bool is_fused(Format const& format, std::size_t width) const {
    bool const has_format =
        std::holds_alternative<FusedBlocks>(format) || std::holds_alternative<Single<Short>>(format);
    return has_format && fits_fused(width) && options_.kernel.value_or("fused") == "fused" && !has_few_samples_;
  }

  /// True if the spread kernel takes a layer of so many inputs.
  template <class Index>
  bool is_spread(std::size_t num_inputs) const {
    return spreads_ && std::is_same_v<Index, Short> && can_be_spread<SpreadTile, ExecutionSpace>(num_inputs);
  }

  /// True if the stationary kernel gets a layer of this format, unless the layer is fused.
  template <class F>
  bool is_stationary(F const& format) const {
    if constexpr (std::is_same_v<F, WideBlocks<typename F::Index>>) {
      return options_.kernel.value_or(Tune::prefers_stationary ? "stationary" : "direct") == "stationary" &&
             can_be_stationary<ExecutionSpace>(format);
    }
    return false;
  }

private:
  using Tune = typename Formats::Tune;
  using Short = typename Formats::Short;
  using Long = typename Formats::Long;
  using FusedBlocks = typename Formats::FusedBlocks;
  template <class Index>
  using WideBlocks = typename Formats::template WideBlocks<Index>;
  template <class Index>
  using Single = typename Formats::template Single<Index>;
  using Staged = typename Formats::Staged;
  using Cones = typename Formats::Cones;
  using Unpacked = typename Formats::Unpacked;
  using SpreadTile = typename Formats::SpreadTile;
  template <class Format, FusedWidth Width>
  using FusedTune = typename Formats::template FusedTune<Format, Width>;

  /// True if no format that comes later in the order of preference may be used.
  bool is_last(FormatName name) const {
    return !options_.formats.empty() && may_use(name) && *std::ranges::max_element(options_.formats) == name;
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
    bool const fuses =
        is_short(layer) && fits_fused(width_of(layer)) && (kernel.empty() || kernel == "fused") && !has_few_samples_;
    if (is_spread<Index>(layer.num_inputs()) && may_use(FormatName::sliced_ell)) {
      auto order = order_of_singles(matrix);
      if (is_last(FormatName::sliced_ell) || is_cheap(Single<Index>::num_stored(matrix, order), 2.0))
        return Single<Index>::pack(matrix, std::move(order));
    }
    if (fuses && leaves_threads_idle_in_blocks(width_of(layer)) && may_use(FormatName::sliced_ell)) {
      auto order = order_of_singles(matrix);
      if (is_cheap(Single<Index>::num_stored(matrix, order), 1.25))
        return Single<Index>::pack(matrix, std::move(order));
    }
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
        if (packed && can_be_stationary<ExecutionSpace>(std::get<Wide>(*packed))) return std::move(*packed);
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
      auto order = order_of_singles(matrix);
      // A fused layer may be padded to a chunk per output: a row of CSR would end the launch.
      EdgeOffset const in_chunks = fuses ? matrix.num_rows * Tune::chunk_size : 0;
      EdgeOffset const stored = Single<Index>::num_stored(matrix, order);
      if (is_last(FormatName::sliced_ell) || is_cheap(stored - std::min(stored, in_chunks), 1.25))
        return Single<Index>::pack(matrix, std::move(order));
    }
    return Unpacked();
  }

  bool may_use_cones() const { return may_use(FormatName::cones) && (!options_.kernel || *options_.kernel == "cones"); }

  bool fits_fused(std::size_t width) const {
    return !is_split_ && width <= std::size_t(FusedTune<Single<Short>, FusedWidth::wide>::max_neurons);
  }

  template <FusedWidth Width>
  static bool is_within(std::size_t width) {
    return Tune::has_fused_widths && width <= std::size_t(FusedTune<Single<Short>, Width>::max_neurons);
  }
  static bool is_narrow(std::size_t width) { return is_within<FusedWidth::narrow>(width); }

  /// Tiles that the fused kernel computes at the same time in its smallest tiles, and the samples of one.
  static std::size_t tiles_at_a_time() {
    using Wide = FusedTune<Single<Short>, FusedWidth::wide>;
    return static_cast<std::size_t>(Wide::league_size(ExecutionSpace(), std::numeric_limits<int>::max()));
  }
  static constexpr std::size_t samples_per_tile =
      Formats::template FusedTile<typename Formats::template FusedTune<Single<Short>, FusedWidth::wide>>::num_samples;

  /// True if every sample that is expected is in a tile that is computed, all of them at the same time.
  bool has_room_in_small_tiles() const {
    return Tune::has_fused_widths && options_.expected_samples &&
           *options_.expected_samples <= tiles_at_a_time() * samples_per_tile;
  }

  /// True if blocks would give too few threads something to do: in layers so narrow, with tiles for half of the teams.
  bool leaves_threads_idle_in_blocks(std::size_t width) const {
    return is_within<FusedWidth::medium>(width) && options_.expected_samples &&
           *options_.expected_samples <= tiles_at_a_time() / 2 * samples_per_tile;
  }

  static bool is_short(Layer const& layer) { return Formats::is_short(layer); }
  static std::size_t width_of(Layer const& layer) { return Formats::width_of(layer); }

  InferenceOptions options_;
  bool is_split_;
  bool has_few_samples_; ///< so that layers must be computed by many teams: no fused kernel
  bool spreads_;         ///< then by the spread kernel
};

} // namespace varve
