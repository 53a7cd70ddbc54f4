#pragma once

#include <optional>
#include <span>

namespace varve {

/// Checks the settings that Kokkos and OpenMP read from the command line (`kokkos_arguments`: the --kokkos- options
/// only) and from the environment, because both libraries abort or crash on unexpected values. `num_devices` is the
/// number of GPUs; nullopt if the build uses none. Throws UsageError that names the option or variable.
void require_valid_settings(std::span<char* const> kokkos_arguments, std::optional<int> num_devices);

} // namespace varve
