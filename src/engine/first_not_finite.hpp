#pragma once

#include "core/execution.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <limits>
#include <optional>

namespace varve {

/// least = min(least, index of a number that is not finite). Index: number.
template <class ExecutionSpace, class Number>
struct FindNotFinite {
  ConstDeviceArray<ExecutionSpace, Number> numbers;

  KOKKOS_FUNCTION void operator()(std::size_t i, std::size_t& least) const {
    if (!Kokkos::isfinite(numbers(i)) && i < least) least = i;
  }
};

/// The index of the first number that is not finite.
template <class ExecutionSpace, class Number>
std::optional<std::size_t> first_not_finite(ExecutionSpace const& space,
                                            ConstDeviceArray<ExecutionSpace, Number> const& numbers) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  if (numbers.size() == 0) return std::nullopt;
  Kokkos::parallel_reduce("varve::find_not_finite", Policy(space, 0, numbers.size()),
                          FindNotFinite<ExecutionSpace, Number>{numbers}, Kokkos::Min<std::size_t>(least));
  return least < numbers.size() ? std::optional(least) : std::nullopt;
}

} // namespace varve
