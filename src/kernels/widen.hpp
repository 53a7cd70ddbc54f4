#pragma once

#include "core/execution.hpp"
#include "core/views.hpp"

#include <cstddef>

namespace varve {

/// to(i) = from(i): converts numbers that were copied to the device in fewer bits. Index: number. Bound by memory
/// bandwidth.
template <class Narrow, class Wide>
struct Widen {
  ArrayView<Narrow const> from;
  ArrayView<Wide> to;

  KOKKOS_FUNCTION void operator()(std::size_t i) const { to(i) = static_cast<Wide>(from(i)); }
};

/// Launches Widen. Does not fence.
template <class ExecutionSpace, class Narrow, class Wide>
void widen(ExecutionSpace const& space, ArrayView<Narrow const> const& from, ArrayView<Wide> const& to,
           std::size_t count) {
  Kokkos::parallel_for("varve::widen_numbers",
                       Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>(space, 0, count),
                       Widen<Narrow, Wide>{from, to});
}

} // namespace varve
