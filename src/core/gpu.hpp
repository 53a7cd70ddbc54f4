#pragma once

#include "core/backend.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <optional>
#include <string>

/// Queries to the runtime library of the GPU's vendor. A Kokkos build has at most one GPU backend. Each backend has the
/// same functions here. num_devices(): GPUs that the process sees, nullopt in builds without GPU backend. name(),
/// number(), identity(): of the GPU in use (see device_name() and device_identity()). free_memory(): bytes, nullopt if
/// the runtime does not report them.
namespace varve::gpu {

#if defined(KOKKOS_ENABLE_CUDA)

inline constexpr std::optional<Backend> backend = Backend::cuda;

inline std::optional<int> num_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

inline std::string name() { return Kokkos::Cuda().cuda_device_prop().name; }

inline int number() { return Kokkos::Cuda().cuda_device(); }

inline std::string identity() {
  auto const& bytes = Kokkos::Cuda().cuda_device_prop().uuid.bytes;
  return std::string(bytes, sizeof(bytes));
}

inline std::optional<std::size_t> free_memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return std::nullopt;
  return free_bytes;
}

#elif defined(KOKKOS_ENABLE_HIP)

inline constexpr std::optional<Backend> backend = Backend::hip;

inline std::optional<int> num_devices() {
  int count = 0;
  return hipGetDeviceCount(&count) == hipSuccess ? count : 0;
}

inline std::string name() { return Kokkos::HIP().hip_device_prop().name; }

inline int number() { return Kokkos::HIP().hip_device(); }

/// The UUID, and the place on the PCI bus, which tells GPUs without a UUID apart within a node.
inline std::string identity() {
  hipUUID uuid{};
  char place[32] = {};
  std::string bytes;
  if (hipDeviceGetUuid(&uuid, number()) == hipSuccess) bytes.assign(uuid.bytes, sizeof(uuid.bytes));
  if (hipDeviceGetPCIBusId(place, sizeof(place), number()) == hipSuccess) bytes += place;
  return bytes;
}

inline std::optional<std::size_t> free_memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (hipMemGetInfo(&free_bytes, &total_bytes) != hipSuccess) return std::nullopt;
  return free_bytes;
}

#else

inline constexpr std::optional<Backend> backend = std::nullopt;
inline std::optional<int> num_devices() { return std::nullopt; }
inline std::string name() { return ""; }
inline int number() { return 0; }
inline std::string identity() { return ""; }
inline std::optional<std::size_t> free_memory() { return std::nullopt; }

#endif

} // namespace varve::gpu
