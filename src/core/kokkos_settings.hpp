#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace varve {

/// Checks the settings that Kokkos and OpenMP read from the command line (`kokkos_arguments`: the --kokkos- options
/// only) and from the environment, because both libraries abort or crash on unexpected values. `num_devices` is the
/// number of GPUs; nullopt if the build uses none. Throws UsageError that names the option or variable.
void require_valid_settings(std::span<char* const> kokkos_arguments, std::optional<int> num_devices);

/// The number of threads that these arguments (--kokkos-num-threads) or the environment (KOKKOS_NUM_THREADS) tell
/// Kokkos to start; 0 if they tell none. All settings must be valid.
std::size_t num_threads_for_kokkos(std::span<char* const> kokkos_arguments);

/// The bytes of the stack of each thread that OpenMP starts: those of OMP_STACKSIZE, which must be valid, else those
/// that the system gives every thread.
std::size_t stack_of_openmp_threads();

/// Throws ResourceError unless the address space of this process has room for the stacks of so many threads, of which
/// one runs already: the OpenMP library ends a process that lacks it, with an exit code of its own. Takes microseconds.
void require_room_for_threads(std::size_t num_threads, std::size_t stack_bytes);

} // namespace varve
