#pragma once

namespace varve::v0_3 {

/// True from the start of Kokkos in this process to its end.
bool kokkos_runs();

/// True after the end of Kokkos, which cannot start again.
bool kokkos_has_ended();

} // namespace varve::v0_3
