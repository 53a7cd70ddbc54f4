#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <string>

namespace varve {

/// Kokkos, alive as long as this object. Construct one, first thing in main (after MPI_Init).
class Runtime {
public:
  /// Takes the --kokkos-* options out of the arguments. Throws UsageError about values, ResourceError about devices.
  Runtime(int& num_arguments, char** arguments);
  ~Runtime();
  Runtime(Runtime const&) = delete;
  Runtime& operator=(Runtime const&) = delete;
};

/// What a backend runs on, for people and reports: "NVIDIA H200 (device 0)", "2 threads".
std::string device_name(Backend backend);

/// A number, in hexadecimal, that no other device in the world has; empty for processors. (The visible number of a
/// device may differ from rank to rank.)
std::string device_identity(Backend backend);

/// Bytes that a backend can still allocate: free memory of the device, or available_host_memory().
std::size_t available_memory(Backend backend);

} // namespace varve
