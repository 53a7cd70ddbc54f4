#pragma once

#include "kernels/line_slice.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace varve {

/// Partial sums over leaves of a layer's gradients.
template <class ExecutionSpace, class Scalar>
struct GradientLevels {
  TreeLevels<ExecutionSpace, Scalar> weights; ///< OfLayer::num_gradients() sums
  TreeLevels<ExecutionSpace, Scalar> bias;    ///< a sum for each output
};

/// Device memory for partial sums over leaves (TreeLevels), shared by all layers, one after the other.
template <class ExecutionSpace, class Scalar>
class LeafLevels {
public:
  using Levels = GradientLevels<ExecutionSpace, Scalar>;

  LeafLevels() = default;
  /// Memory for every layer and for up to max_leaves leaves.
  template <class Layers>
  LeafLevels(Layers const& layers, std::size_t max_leaves) {
    ExecutionSpace const space;
    std::size_t of_weights = 0;
    std::size_t of_bias = 0;
    for (auto const& layer : layers) {
      for (std::size_t leaves = 1; leaves <= max_leaves; ++leaves) {
        auto const levels = of(space, layer, leaves);
        of_weights = std::max(of_weights, size_of(levels.weights));
        of_bias = std::max(of_bias, size_of(levels.bias));
      }
    }
    auto const room = Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::leaf_sums"));
    weights_ = DeviceArray<ExecutionSpace, Scalar>(room, of_weights);
    bias_ = DeviceArray<ExecutionSpace, Scalar>(room, of_bias);
  }

  /// The levels for the backward pass of a layer over num_leaves leaves: for SlicedBackward if a team has scratch
  /// for the errors of all outputs (`slices` of both is then above 1).
  template <class OfLayer>
  Levels of(ExecutionSpace const& space, OfLayer const& layer, std::size_t num_leaves) const {
    auto const leaves = static_cast<int>(num_leaves);
    auto const outputs = static_cast<std::size_t>(layer.num_outputs);
    int const processors = num_processors(space);
    if constexpr (!kOnHost<ExecutionSpace>) {
      using Slice = LineSlice<ExecutionSpace, Scalar>;
      if (!layer.format.has_dense_backward && Slice::fits(layer.num_outputs)) {
        int const slices = leaves * Slice::slices;
        int const per_run =
            Tune::slices_per_run(processors, Tune::slice_blocks(processors, layer.num_inputs, slices), slices);
        return {{weights_, layer.num_gradients(), levels_of(per_run), per_run, slices, Slice::slices},
                {bias_, outputs, levels_of(per_run), per_run, slices, Slice::slices}};
      }
    }
    constexpr int group = LeafSums<TrainingTile<ExecutionSpace, Scalar>>::count;
    int const per_run = leaves_per_run(processors, layer.num_inputs, leaves);
    int const per_run_of_bias = leaves_per_run(processors, (layer.num_outputs + group - 1) / group, leaves);
    return {{weights_, layer.num_gradients(), levels_of(per_run), per_run, leaves},
            {bias_, outputs, levels_of(per_run_of_bias), per_run_of_bias, leaves}};
  }

private:
  using Tune = TrainingTuning<ExecutionSpace>;

  /// Leaves that a team adds up by itself in kernels over num_rows rows, or groups of rows.
  static int leaves_per_run(int processors, int num_rows, int num_leaves) {
    return Tune::leaves_per_run(processors, Tune::num_blocks(processors, num_rows), num_leaves);
  }
  static int levels_of(int leaves_per_run) {
    int levels = 1;
    while (1 << (levels - 1) < leaves_per_run) ++levels;
    return levels;
  }
  static std::size_t size_of(TreeLevels<ExecutionSpace, Scalar> const& levels) {
    return size_of_levels(levels.num_sums, levels.num_leaves, levels.leaves_per_run);
  }

  DeviceArray<ExecutionSpace, Scalar> weights_, bias_;
};

} // namespace varve
