#pragma once

#include "core/error.hpp"
#include "engine/launch.hpp"
#include "engine/layer_formats.hpp"
#include "plan/cuts.hpp"

#include <limits>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

namespace varve {

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
          if (reads_copy_of_first_layer(step.kernel)) return make_first(format, step);
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
  std::unique_ptr<Launch> make_first(F const& format, Step const& step) const {
    if constexpr (is_for_first_layer<F> || std::is_same_v<F, typename Formats::template Single<Short>> ||
                  std::is_same_v<F, typename Formats::template Single<typename Formats::Long>>)
      return std::make_unique<FirstLaunch<ExecutionSpace, F>>(format, static_cast<int>(step.choice.tile_samples));
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
