#include "library/crossing.hpp"

#include <Kokkos_Core.hpp>

namespace varve::v0_3 {

bool kokkos_runs() { return Kokkos::is_initialized(); }
bool kokkos_has_ended() { return Kokkos::is_finalized(); }

} // namespace varve::v0_3
