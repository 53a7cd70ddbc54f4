#pragma once

#include "kernels/training_tile.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// totals(first + i) = the sum of all leaves at place places(i), never -0: the gradients at edges, from those at all
/// places. Index: a chunk of neighbouring edges (CPUs: 64, GPUs: one). Bound by memory.
template <class ExecutionSpace, class Scalar>
struct PickLevels {
  static constexpr std::size_t chunk = kOnHost<ExecutionSpace> ? 64 : 1;

  TreeLevels<ExecutionSpace, Scalar> levels;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places;
  DeviceArray<ExecutionSpace, Scalar> totals;
  std::size_t first;

  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    std::size_t const begin = index * chunk;
    std::size_t const end = begin + chunk < places.size() ? begin + chunk : places.size();
    if (levels.has_one_subtree()) { // a loop of its own, which compilers vectorize
      for (std::size_t i = begin; i < end; ++i) totals(first + i) = levels.only_total(places(i));
    } else {
      for (std::size_t i = begin; i < end; ++i) totals(first + i) = levels.total(places(i));
    }
  }
};

/// Launches PickLevels. Does not fence.
template <class ExecutionSpace, class Scalar>
void pick_levels(ExecutionSpace const& space, PickLevels<ExecutionSpace, Scalar> const& kernel) {
  constexpr std::size_t chunk = PickLevels<ExecutionSpace, Scalar>::chunk;
  if (kernel.levels.num_leaves == 0 || kernel.places.size() == 0) return;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  Kokkos::parallel_for("varve::pick_levels", Policy(space, 0, (kernel.places.size() + chunk - 1) / chunk), kernel);
}

} // namespace varve
