#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace varve {

/// Checks the settings that Kokkos and OpenMP read from the command line (`kokkos_arguments`: the --kokkos- options
/// only) and from the environment, because both libraries abort or crash on unexpected values. `num_devices`: the
/// number of GPUs; nullopt if the build uses none. Throws UsageError that names the option or variable.
void require_valid_settings(std::span<char* const> kokkos_arguments, std::optional<int> num_devices);

/// The number of threads requested for Kokkos by these arguments (--kokkos-num-threads) or the environment
/// (KOKKOS_NUM_THREADS); 0 if there is no request. All settings must be valid.
std::size_t num_threads_for_kokkos(std::span<char* const> kokkos_arguments);

/// The stack bytes of each thread that OpenMP starts: OMP_STACKSIZE, which must be valid, else the system's default.
std::size_t stack_of_openmp_threads();

/// Throws ResourceError unless the address space of this process has room for the stacks of num_threads threads, one of
/// which runs already. Without room the OpenMP library ends the process, with its own exit code. Takes microseconds.
void require_room_for_threads(std::size_t num_threads, std::size_t stack_bytes);

} // namespace varve
