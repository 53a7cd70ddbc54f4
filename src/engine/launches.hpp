#pragma once

#include "core/device_stream.hpp"
#include "core/error.hpp"
#include "engine/kernel_set.hpp"
#include "engine/layer_formats.hpp"
#include "engine/panel_on.hpp"
#include "formats/layer_images.hpp"
#include "kernels/binary_samples.hpp"
#include "kernels/cone_forward.hpp"
#include "kernels/dense_forward.hpp"
#include "kernels/direct_forward.hpp"
#include "kernels/first_layer.hpp"
#include "kernels/fused_forward.hpp"
#include "kernels/small_batch_forward.hpp"
#include "kernels/split_output_forward.hpp"
#include "kernels/split_output_operands.hpp"
#include "kernels/staged_forward.hpp"
#include "kernels/stationary_forward.hpp"
#include "plan/cuts.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// The place of a strip among the outputs of its layer.
struct StripPlace {
  int first_output = 0;
  int num_lines = 0; ///< outputs of the whole layer; 0: the launch computes a whole layer
  bool begins_layer = true;
  bool ends_layer = true;
};

/// A kernel that computes one layer at a time: how it differs from others, and its launch.
template <KernelName name>
struct LayerKernel {
  static constexpr bool takes_strips = name == KernelName::direct || name == KernelName::dense;
  /// It reads samples through a list of live ones.
  static constexpr bool reads_lists =
      name == KernelName::stationary || name == KernelName::staged || name == KernelName::cones;
  static constexpr bool reads_bits = name == KernelName::stationary; ///< of samples whose values are all equal
  static constexpr bool may_leave_stamps = name == KernelName::split_output;

  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    if constexpr (name == KernelName::stationary) {
      static_assert(Tile::num_samples == Tuning<ExecutionSpace, typename Tile::Scalar>::StationaryTile::num_samples);
      stationary_forward(space, layer, pass);
    } else if constexpr (name == KernelName::staged) {
      staged_forward<Tile>(space, layer, pass);
    } else if constexpr (name == KernelName::cones) {
      cone_forward<Tile>(space, layer, pass);
    } else if constexpr (name == KernelName::dense) {
      dense_forward<Tile>(space, layer, pass);
    } else if constexpr (name == KernelName::direct) {
      direct_forward<Tile>(space, layer, pass);
    } else if constexpr (requires { Format::Edges::is_dense; }) {
      split_output_dense<Tile>(space, layer, pass);
    } else {
      split_output_forward<Tile>(space, layer, pass);
    }
  }
};

/// Computes one layer, a strip of a layer, or a run of cones, by a LayerKernel.
template <class ExecutionSpace, class Format, class Tile, class Kernel>
class LayerLaunch final : public Launch {
public:
  using Scalar = typename Tile::Scalar;

  /// `reads_bits`: the kernel reads the samples, whose values are all equal, as bits.
  LayerLaunch(Format layer, bool reads_bits, StripPlace const& strip)
      : layer_(std::move(layer)), reads_bits_(reads_bits), strip_(strip) {}

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if (reads_bits_) {
      if constexpr (Kernel::reads_bits)
        stationary_forward_bits(space, layer_, panel.next_pass(), panel.set_bits(space));
    } else {
      if (!panel.is_expanded()) panel.template expand<Tile>(space);
      if (!Kernel::reads_lists || panel.tile_samples() != Tile::num_samples) panel.compact(space, Tile::num_samples);
      auto pass = pass_of(panel);
      if (Kernel::may_leave_stamps && !hand_over.marks_live) pass.live_stamps = {};
      Kernel::template launch<Tile>(space, layer_, pass);
    }
    if (!strip_.ends_layer) return;
    panel.advance(strip_.num_lines == 0 ? layer_.num_outputs() : strip_.num_lines, Tile::num_samples);
    if (hand_over.lists_live && hand_over.lists_saturated)
      panel.list_live_and_saturated(space, static_cast<Scalar>(hand_over.cap));
    if (hand_over.lists_live && !hand_over.lists_saturated) panel.list_live(space);
    if (hand_over.joins_equal) panel.list_distinct(space);
  }

private:
  /// The arrays of the launch. All strips of a layer mark live samples with the same stamp.
  auto pass_of(PanelOn<ExecutionSpace, Scalar>& panel) const {
    auto pass = strip_.begins_layer ? panel.next_pass() : panel.same_pass();
    if constexpr (Kernel::takes_strips) {
      pass.first_output = strip_.first_output;
      pass.num_lines = strip_.num_lines;
    }
    return pass;
  }

  Format layer_;
  bool reads_bits_;
  StripPlace strip_;
};

/// The Format::Edges of several layers on the device, as bytes: Kokkos would launch a kernel to destroy a View of
/// Edges.
template <class ExecutionSpace, class Format>
ConstDeviceArray<ExecutionSpace, unsigned char> upload_edges(std::vector<Format> const& layers) {
  std::vector<typename Format::Edges> edges;
  for (auto const& layer : layers) edges.push_back(layer.edges());
  std::vector<unsigned char> bytes(edges.size() * sizeof(typename Format::Edges));
  std::memcpy(bytes.data(), edges.data(), bytes.size());
  return upload<ExecutionSpace>("varve::edges_of_layers", bytes);
}

/// Computes several layers of one format by the fused kernel. No layer may have more than Tune::max_neurons outputs,
/// nor the first one more inputs.
template <class ExecutionSpace, class Format, class Tile, class Tune>
class FusedLaunch final : public Launch {
public:
  using Scalar = typename Tile::Scalar;

  /// stops_when_dead: samples that are dead after the first of these layers stay dead. saturates_from: samples that are
  /// saturated after at least this many of these layers stay saturated.
  FusedLaunch(std::vector<Format> layers, bool stops_when_dead, int saturates_from)
      : layers_(std::move(layers)),
        edges_(upload_edges<ExecutionSpace>(layers_)),
        stops_when_dead_(stops_when_dead),
        saturates_from_(saturates_from) {
    for (auto const& layer : layers_) max_outputs_ = std::max(max_outputs_, layer.frame.num_outputs);
    if constexpr (Tune::prefetches) images_ = LayerImages<ExecutionSpace, Format>(layers_);
  }

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if (panel.is_expanded()) panel.compact(space, Tile::num_samples);
    FusedForward<ExecutionSpace, Format, Tile, Tune> kernel;
    kernel.layers = array_in<typename Format::Edges>(edges_, 0, layers_.size());
    kernel.num_layers = static_cast<int>(layers_.size());
    kernel.images = images_.bytes();
    kernel.image_bytes = static_cast<int>(images_.stride());
    bool const holds_inputs = Tune::in_place || !panel.is_expanded(); // else the first layer reads them from memory
    kernel.max_neurons = holds_inputs ? std::max(max_outputs_, layers_.front().frame.num_inputs) : max_outputs_;
    kernel.samples = panel.samples();
    if (panel.is_expanded()) kernel.source = panel.source();
    kernel.num_slots = panel.num_samples();
    kernel.hand_over.ids = panel.ids();
    kernel.hand_over.target = panel.target();
    kernel.hand_over.target_tile_samples = hand_over.tile_samples;
    kernel.hand_over.num_kept = panel.next_count();
    kernel.hand_over.kept_ids = panel.next_ids();
    kernel.hand_over.saturated = panel.saturated();
    kernel.cap = static_cast<Scalar>(hand_over.cap);
    kernel.saturates_from = saturates_from_;
    kernel.hand_over.keeps_dead = hand_over.keeps_dead;
    kernel.stops_when_dead = stops_when_dead_;
    fused_forward(space, kernel, panel.max_samples());
    panel.advance_compacted(space, layers_.back().frame.num_outputs, hand_over.tile_samples);
    if (hand_over.joins_equal) panel.list_distinct(space);
  }

private:
  std::vector<Format> layers_;
  ConstDeviceArray<ExecutionSpace, unsigned char> edges_; ///< upload_edges()
  LayerImages<ExecutionSpace, Format> images_;            ///< empty unless Tune::prefetches
  int max_outputs_ = 0;
  bool stops_when_dead_ = false;
  int saturates_from_ = 0;
};

/// Computes several layers of one format by the small-batch kernel.
template <class ExecutionSpace, class Format, class Tile>
class FewLaunch final : public Launch {
public:
  using Scalar = typename Tile::Scalar;
  using Edges = typename Format::Edges;

  explicit FewLaunch(std::vector<Format> layers)
      : layers_(std::move(layers)), edges_(upload_edges<ExecutionSpace>(layers_)) {
    for (auto const& layer : layers_) weights_per_layer_ += layer.weights.size();
    weights_per_layer_ /= layers_.size();
  }

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if (panel.is_expanded()) panel.compact(space, Tile::num_samples);
    SmallBatchForward<ExecutionSpace, Format, Tile> const kernel{array_in<Edges>(edges_, 0, layers_.size()),
                                                                 panel.samples(), !panel.is_expanded(),
                                                                 panel.reusable_source(), panel.next_pass()};
    small_batch_forward(space, kernel, weights_per_layer_);
    for (auto const& layer : layers_) panel.advance(layer.num_outputs(), Tile::num_samples);
    if (hand_over.lists_live) panel.list_live(space);
  }

private:
  std::vector<Format> layers_;
  ConstDeviceArray<ExecutionSpace, unsigned char> edges_; ///< upload_edges()
  std::size_t weights_per_layer_ = 0;
};

/// Computes the first layer by a further copy, without tiles of the samples: from the bits of samples whose values are
/// all equal, by counting their entries, or by the edges of few entries. Does not remove dead samples, because few die
/// in the first layer.
template <class ExecutionSpace, class Format>
class FirstLaunch final : public Launch {
public:
  using Scalar = typename Format::Scalar;

  explicit FirstLaunch(Format layer) : layer_(std::move(layer)) {}

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if constexpr (std::is_same_v<Format, CountedLayer<ExecutionSpace, Scalar>>) {
      counted_forward(space, layer_, panel.samples(), panel.target(), hand_over.tile_samples);
    } else if constexpr (std::is_same_v<Format, Csc<ExecutionSpace, Scalar>>) {
      entry_forward(space, layer_, panel.samples(), panel.target(), hand_over.tile_samples);
    } else {
      auto const bits = panel.set_bits(space);
      binary_forward(space, layer_, bits, panel.next_pass(), hand_over.tile_samples);
    }
    panel.advance(layer_.num_outputs(), hand_over.tile_samples);
  }

private:
  Format layer_;
};

/// Creates the launches that carry out the steps of a plan. Only this class knows which kernels exist for which formats
/// and tiles.
template <class ExecutionSpace, class Scalar>
class LaunchMaker {
public:
  using Layers = std::vector<typename LayerFormats<ExecutionSpace, Scalar>::Format const*>;

  /// `layers`: the layers of the step, or its strip alone. Both must outlive this object, but not the launch, which
  /// shares ownership of the layers' arrays.
  LaunchMaker(Layers const& layers, LaunchCutter const& cutter) : layers_(layers), cutter_(cutter) {}

  std::unique_ptr<Launch> make(Step const& step) const {
    return std::visit(
        [&]<class F>(F const& format) -> std::unique_ptr<Launch> {
          if (step.kernel == KernelName::fused) return make_fused<F>(step);
          if (step.kernel == KernelName::small_batch) return make_few<F>(step);
          if (reads_copy_of_first_layer(step.kernel)) return make_first(format);
          return make_layer(format, step);
        },
        *layers_.front());
  }

private:
  using Formats = LayerFormats<ExecutionSpace, Scalar>;
  using Tune = typename Formats::Tune;
  using Short = typename Formats::Short;
  template <class F>
  static constexpr bool is_dense = std::is_same_v<F, typename Formats::Dense>;
  template <class F>
  static constexpr bool can_be_fused = std::is_same_v<F, typename Formats::FusedBlocks> ||
                                       std::is_same_v<F, typename Formats::template Single<Short>> ||
                                       (is_dense<F> && !Tune::has_dense_kernel);
  template <class F>
  static constexpr bool is_for_few =
      std::is_same_v<F, typename Formats::FewSlices> || std::is_same_v<F, typename Formats::FewDense>;
  template <class F>
  static constexpr bool is_for_first_layer =
      std::is_same_v<F, typename Formats::Counted> || std::is_same_v<F, typename Formats::Columns>;
  template <class F>
  static constexpr bool is_wide_blocks = std::is_same_v<F, typename Formats::template WideBlocks<typename F::Index>>;

  template <class F>
  std::unique_ptr<Launch> make_fused(Step const& step) const {
    if constexpr (can_be_fused<F>) {
      constexpr int outputs = F::block_outputs;
      if constexpr (Tune::has_large_tiles) {
        if (step.choice.fused_tile == FusedTile::with_image)
          return make_fused_with<F, FusedTuning<ExecutionSpace, Scalar, outputs, FusedTile::with_image>>(step);
        if (step.choice.fused_tile == FusedTile::large)
          return make_fused_with<F, FusedTuning<ExecutionSpace, Scalar, outputs, FusedTile::large>>(step);
      }
      if constexpr (Tune::has_wide_tiles && outputs == 1) {
        if (step.choice.fused_tile == FusedTile::wide)
          return make_fused_with<F, FusedTuning<ExecutionSpace, Scalar, outputs, FusedTile::wide>>(step);
      }
      using Narrow = typename Tune::NarrowFused;
      if constexpr (!std::is_void_v<Narrow> && outputs == 1) {
        if (max_outputs_of(step) <= static_cast<std::size_t>(Narrow::max_outputs))
          return make_fused_with<F, Narrow>(step);
      }
      return make_fused_with<F, FusedTuning<ExecutionSpace, Scalar, outputs, FusedTile::small>>(step);
    }
    return nullptr;
  }

  std::size_t max_outputs_of(Step const& step) const {
    std::size_t most = 0;
    for (std::size_t number = step.first_layer; number <= step.last_layer; ++number)
      most = std::max(most, cutter_.layers()[number].num_outputs);
    return most;
  }

  template <class F>
  std::unique_ptr<Launch> make_few(Step const& step) const {
    if constexpr (Tune::has_small_batch_kernel && is_for_few<F>) {
      using Single = TileShape<Scalar, 1, 1, 1>;
      if (step.choice.tile_samples == 1) return std::make_unique<FewLaunch<ExecutionSpace, F, Single>>(formats_of<F>());
      return std::make_unique<FewLaunch<ExecutionSpace, F, typename Tune::FewTile>>(formats_of<F>());
    }
    return nullptr;
  }

  template <class F>
  std::unique_ptr<Launch> make_first(F const& format) const {
    if constexpr (is_for_first_layer<F> || std::is_same_v<F, typename Formats::template Single<Short>> ||
                  std::is_same_v<F, typename Formats::template Single<typename Formats::Long>>)
      return std::make_unique<FirstLaunch<ExecutionSpace, F>>(format);
    return nullptr;
  }

  /// The layers of a step in format F, which all of them must have.
  template <class F>
  std::vector<F> formats_of() const {
    std::vector<F> formats;
    for (auto const* layer : layers_) formats.push_back(std::get<F>(*layer));
    return formats;
  }

  template <class F, class FusedTune>
  std::unique_ptr<Launch> make_fused_with(Step const& step) const {
    int saturates_from = std::numeric_limits<int>::max();
    if (cutter_.saturates_from() < cutter_.num_layers())
      saturates_from =
          static_cast<int>(cutter_.saturates_from() - std::min(cutter_.saturates_from(), step.first_layer));
    return std::make_unique<FusedLaunch<ExecutionSpace, F, typename FusedTune::Tile, FusedTune>>(
        formats_of<F>(), cutter_.stays_dead_after(step.first_layer), saturates_from);
  }

  template <class F>
  std::unique_ptr<Launch> make_layer(F const& format, Step const& step) const {
    if constexpr (std::is_same_v<F, typename Formats::Cones>) {
      return by<typename Tune::ConeTile, KernelName::cones>(format, step);
    } else if constexpr (std::is_same_v<F, typename Formats::Staged>) {
      return by<typename Tune::StagedTile, KernelName::staged>(format, step);
    } else if constexpr (std::is_same_v<F, typename Formats::FewDense> && Tune::max_single_spread_samples > 0) {
      return by<TileShape<Scalar, 1, 1, 1>, KernelName::split_output>(format, step);
    } else if constexpr (std::is_same_v<F, typename Formats::FusedBlocks> || is_for_few<F> || is_for_first_layer<F>) {
      return nullptr; // layers that are not fused have wide blocks; other functions have handled the other formats
    } else if constexpr (is_dense<F> && Tune::has_dense_kernel) {
      return by<typename Tune::DenseTile, KernelName::dense>(format, step);
    } else if constexpr (is_wide_blocks<F>) {
      if constexpr (Tune::has_stationary) {
        if (step.kernel == KernelName::stationary)
          return by<typename Tune::StationaryTile, KernelName::stationary>(format, step);
      }
      return by<typename Tune::WideBlockTile, KernelName::direct>(format, step);
    } else {
      return make_single(format, step);
    }
  }

  /// Creates the launch of a layer in sliced ELL of single outputs or in CSR, or of a dense one on a host.
  template <class F>
  std::unique_ptr<Launch> make_single(F const& format, Step const& step) const {
    if constexpr (std::is_same_v<F, typename Formats::template Single<Short>>) {
      if constexpr (Tune::max_single_spread_samples > 0) {
        if (step.kernel == KernelName::split_output && step.choice.tile_samples == 1)
          return by<TileShape<Scalar, 1, 1, 1>, KernelName::split_output>(format, step);
      }
      if (step.kernel == KernelName::split_output)
        return by<typename Tune::SpreadTile, KernelName::split_output>(format, step);
    }
    using Few = typename Tune::FewTile;
    if constexpr (Few::num_samples < Tune::Tile::num_samples) {
      if (step.choice.tile_samples == static_cast<std::size_t>(Few::num_samples))
        return by<Few, KernelName::direct>(format, step);
    }
    return by<typename Tune::Tile, KernelName::direct>(format, step);
  }

  template <class Tile, KernelName name, class F>
  std::unique_ptr<Launch> by(F const& format, Step const& step) const {
    using Kernel = LayerKernel<name>;
    VARVE_REQUIRE(step.num_strips == 1 || Kernel::takes_strips, "a kernel that takes no strips");
    return std::make_unique<LayerLaunch<ExecutionSpace, F, Tile, Kernel>>(format, step.reads_bits, place_of(step));
  }

  StripPlace place_of(Step const& step) const {
    if (step.num_strips == 1) return {};
    PlannedLayer const& layer = cutter_.layers()[step.first_layer];
    return {static_cast<int>(layer.strips[step.strip].outputs.first_output), static_cast<int>(layer.num_outputs),
            step.strip == 0, step.ends_layer()};
  }

  Layers const& layers_;
  LaunchCutter const& cutter_;
};

} // namespace varve
