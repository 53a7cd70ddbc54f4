#pragma once

#include "engine/layer_strips.hpp"
#include "kernels/leaf_gradient_gpu.hpp"
#include "kernels/line_half.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace varve {

/// Partial sums over leaves of the gradients of a strip of a layer.
template <class ExecutionSpace, class Scalar>
struct GradientLevels {
  TreeLevels<ExecutionSpace, Scalar> weights; ///< a sum for each gradient of the strip
  TreeLevels<ExecutionSpace, Scalar> bias;    ///< a sum for each output, if the gradients of biases go with the strip
};

/// Device memory for partial sums over leaves (TreeLevels), shared by all strips of layers, one after the other.
template <class ExecutionSpace, class Scalar>
class LeafLevels {
public:
  using Levels = GradientLevels<ExecutionSpace, Scalar>;

  LeafLevels() = default;
  /// Memory for every strip of every layer and for up to max_leaves leaves.
  template <class Layers>
  LeafLevels(Layers const& layers, LayerStrips const& strips, std::size_t max_leaves) {
    ExecutionSpace const space;
    std::size_t of_weights = 0;
    std::size_t of_bias = 0;
    for (std::size_t number = 0; number < layers.size(); ++number) {
      for (auto const& strip : strips.of(number, LayerUse::Direction::backward)) {
        for (std::size_t leaves = 1; leaves <= max_leaves; ++leaves) {
          auto const levels = of(space, layers[number], strip, leaves);
          of_weights = std::max(of_weights, size_of(levels.weights));
          of_bias = std::max(of_bias, size_of(levels.bias));
        }
      }
    }
    auto const room = Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::leaf_sums"));
    weights_ = DeviceArray<ExecutionSpace, Scalar>(room, of_weights);
    bias_ = DeviceArray<ExecutionSpace, Scalar>(room, of_bias);
  }

  /// The levels for the backward pass of a strip over num_leaves leaves: on GPUs for LeafGradientOnGpu if the layer is
  /// dense, else for ScratchBackward if a team has scratch for the errors of all outputs (`parts_per_leaf` of both is
  /// then above 1).
  template <class OfLayer>
  Levels of(ExecutionSpace const& space, OfLayer const& layer, LayerStrip const& strip, std::size_t num_leaves) const {
    auto const leaves = static_cast<int>(num_leaves);
    auto const rows = static_cast<int>(strip.num_rows);
    auto const outputs = static_cast<std::size_t>(layer.num_outputs);
    std::size_t const gradients = layer.format.has_dense_backward ? strip.num_rows * outputs : strip.num_edges;
    std::size_t const biases = strip.is_first ? outputs : 0;
    int const processors = num_processors(space);
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (layer.format.has_dense_backward) {
        int const parts = LeafGradientOnGpu<ExecutionSpace, Scalar>::num_parts(rows, layer.num_outputs);
        int const per_run = Tune::leaves_per_dense_run(processors, parts, leaves);
        return {{weights_, gradients, levels_of(per_run), per_run, leaves},
                {bias_, biases, levels_of(per_run), per_run, leaves}};
      }
      using Half = LineHalf<ExecutionSpace, Scalar>;
      if (Half::fits(layer.num_outputs)) {
        int const halves = leaves * Half::halves;
        int const per_run = Tune::halves_per_run(processors, Tune::half_blocks(processors, rows, halves), halves);
        return {{weights_, gradients, levels_of(per_run), per_run, halves, Half::halves},
                {bias_, biases, levels_of(per_run), per_run, halves, Half::halves}};
      }
    }
    constexpr int group = LeafSums<TrainingTile<ExecutionSpace, Scalar>>::count;
    int const per_run = leaves_per_run(processors, rows, leaves);
    int const per_run_of_bias = leaves_per_run(processors, (layer.num_outputs + group - 1) / group, leaves);
    return {{weights_, gradients, levels_of(per_run), per_run, leaves},
            {bias_, biases, levels_of(per_run_of_bias), per_run_of_bias, leaves}};
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
