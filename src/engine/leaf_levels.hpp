#pragma once

#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace varve {

/// Device memory for partial sums over leaves (TreeLevels), shared by all layers, one after the other.
template <class ExecutionSpace, class Scalar>
class LeafLevels {
public:
  LeafLevels() = default;
  /// Memory for every layer and for up to max_leaves leaves.
  template <class Layers>
  LeafLevels(Layers const& layers, std::size_t max_leaves) {
    std::size_t most = 0;
    for (auto const& layer : layers) {
      most = std::max({most, size_for(layer.num_gradients(), layer.num_inputs, max_leaves),
                       size_for(static_cast<std::size_t>(layer.num_outputs), layer.num_outputs, max_leaves)});
    }
    sums_ = DeviceArray<ExecutionSpace, Scalar>(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::leaf_sums")), most);
  }

  /// The levels for num_sums sums over num_leaves leaves, in kernels over num_rows rows.
  TreeLevels<ExecutionSpace, Scalar> of(ExecutionSpace const& space, std::size_t num_leaves, std::size_t num_sums,
                                        int num_rows) const {
    auto const leaves = static_cast<int>(num_leaves);
    int const per_run = leaves_per_run(space, num_rows, leaves);
    return {sums_, num_sums, levels_of(per_run), per_run, leaves};
  }

private:
  using Tune = TrainingTuning<ExecutionSpace>;

  /// Leaves that a team adds up by itself.
  static int leaves_per_run(ExecutionSpace const& space, int num_rows, int num_leaves) {
    int const processors = num_processors(space);
    return Tune::leaves_per_run(processors, Tune::num_blocks(processors, num_rows), num_leaves);
  }
  static int levels_of(int leaves_per_run) {
    int levels = 1;
    while (1 << (levels - 1) < leaves_per_run) ++levels;
    return levels;
  }
  /// The most elements that the levels need for any number of leaves.
  static std::size_t size_for(std::size_t num_sums, int num_rows, std::size_t max_leaves) {
    std::size_t most = 0;
    for (int leaves = 1; leaves <= static_cast<int>(max_leaves); ++leaves)
      most = std::max(most, size_of_levels(num_sums, leaves, leaves_per_run(ExecutionSpace(), num_rows, leaves)));
    return most;
  }

  DeviceArray<ExecutionSpace, Scalar> sums_;
};

} // namespace varve
