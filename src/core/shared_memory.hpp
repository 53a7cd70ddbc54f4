#pragma once

#include "core/execution.hpp"
#include "core/gpu.hpp"
#include "core/printable.hpp"
#include "core/shared_device_memory.hpp"
#include "core/shared_host_memory.hpp"

#include <cstddef>
#include <string>

namespace varve {

namespace detail {

template <bool OnHost>
struct SharedMemoryOf {
  using Type = SharedHostMemory;
};

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
template <>
struct SharedMemoryOf<false> {
  using Type = SharedDeviceMemory;
};
#endif

} // namespace detail

/// Memory of an execution space that other processes of this machine can open by its handle.
template <class ExecutionSpace>
using SharedMemory = typename detail::SharedMemoryOf<kOnHost<ExecutionSpace>>::Type;

/// How far the device of an identity (see device_identity()) is from that in use: a number that orders devices, smaller
/// is nearer; 0 on hosts.
template <class ExecutionSpace>
int distance_to([[maybe_unused]] std::string const& identity) {
  if constexpr (kOnHost<ExecutionSpace>) {
    return 0;
  } else {
    return gpu::distance_to(from_hexadecimal(identity));
  }
}

} // namespace varve
