#pragma once

#include <optional>
#include <span>

namespace varve {

/// Checks what the command line (its --kokkos- options alone) and the environment tell Kokkos and OpenMP, which abort
/// or crash over values that they do not expect. `num_devices` is the number of GPUs, if the build uses any. Throws
/// UsageError that names the option or the variable.
void require_valid_settings(std::span<char* const> kokkos_arguments, std::optional<int> num_devices);

} // namespace varve
