#pragma once

#include "core/backend.hpp"
#include "core/error.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Initializes Kokkos and finalizes it on destruction. Construct exactly one at the start of main, after MPI_Init.
class Runtime {
public:
  /// Removes the --kokkos-* options from the arguments and passes them to Kokkos. Throws UsageError for a bad value,
  /// ResourceError if Kokkos or the device cannot start.
  Runtime(int& num_arguments, char** arguments);
  ~Runtime();
  Runtime(Runtime const&) = delete;
  Runtime& operator=(Runtime const&) = delete;
};

/// Sets the function that reports an error if a library ends the process while Runtime starts; the process then ends
/// with the exit code of that error. (libgomp ends it with 1 if it cannot start its threads.) For programs: without it
/// the library's exit code remains.
void set_start_failure_handler(std::function<void(Error const&)> say);

/// Runtime without Kokkos, for work that computes nothing on its devices: removes the --kokkos-* options from the
/// arguments, throws UsageError for a bad value, lets host threads use all processors of the process, and limits
/// allocations to the available memory (limit_memory_to_available()). Accepts any GPU number, because the machine may
/// have no GPU.
void start_on_host(int& num_arguments, char** arguments);

/// A readable name of the hardware behind a backend, for messages and reports: "NVIDIA H200 (device 0)", "2 threads".
std::string device_name(Backend backend);

/// An identifier of the GPU that is unique across nodes (CUDA: its UUID; HIP: UUID and PCI address), in hexadecimal;
/// empty on CPU backends. (The device index does not identify a GPU: it may differ between ranks.)
std::string device_identity(Backend backend);

/// Memory in bytes that a backend can still allocate: free device memory, or available_host_memory() on CPU backends.
/// Throws ResourceError if the device does not report it.
std::size_t available_memory(Backend backend);

/// Properties of a device for reports, as names and values, in the order of display.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// The GPU behind a backend: its name, memory, caches, processors, clocks and driver, as far as the runtime library
/// reports them; empty on CPU backends.
Facts device_facts(Backend backend);

/// Kokkos's own report of its configuration: the processor and GPU it was compiled for, and the number of threads of
/// its host backend.
Facts kokkos_facts();

/// The indices {earlier, later} of the first text that equals an earlier one; empty texts are ignored. For the
/// identities of devices: the two ranks that share one.
inline std::optional<std::pair<std::size_t, std::size_t>> first_repeated(std::vector<std::string> const& texts) {
  std::map<std::string, std::size_t> first_of;
  for (std::size_t index = 0; index < texts.size(); ++index) {
    if (texts[index].empty()) continue;
    auto const [first, is_new] = first_of.emplace(texts[index], index);
    if (!is_new) return std::pair(first->second, index);
  }
  return std::nullopt;
}

/// Labels everything launched during its lifetime for Kokkos Tools.
class ProfilingRegion {
public:
  explicit ProfilingRegion(std::string const& label);
  ~ProfilingRegion();
  ProfilingRegion(ProfilingRegion const&) = delete;
  ProfilingRegion& operator=(ProfilingRegion const&) = delete;
};

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
