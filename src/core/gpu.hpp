#pragma once

#include "core/backend.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Queries to the runtime library of the GPU's vendor. A Kokkos build has at most one GPU backend. Each backend has the
/// same functions here. num_devices(): GPUs that the process sees, nullopt in builds without GPU backend. name(),
/// number(), identity(): of the GPU in use (see device_name() and device_identity()). free_memory(): bytes, nullopt if
/// the runtime does not report them. distance_to(): how far the GPU of an identity is from that in use, by the
/// runtime's rank of the links between them: smaller is nearer, -1 for the same GPU, a large number if it is not known.
/// facts(): names and values for reports; clocks in kHz, sizes in bytes.
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

/// Copies between GPUs without a known link are the slowest.
inline constexpr int unknown_distance = 1 << 20;

inline int distance_to(std::string const& other) {
  if (other == identity()) return -1;
  for (int device = 0; device < num_devices().value_or(0); ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
    if (std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes)) != other) continue;
    int rank = 0;
    auto const status = cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, number(), device);
    return status == cudaSuccess ? rank : unknown_distance;
  }
  return unknown_distance;
}

inline std::vector<std::pair<std::string, std::string>> facts() {
  auto const& device = Kokkos::Cuda().cuda_device_prop();
  auto const attribute = [](cudaDeviceAttr which) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, number()) == cudaSuccess ? std::to_string(value) : std::string();
  };
  int driver = 0;
  int runtime = 0;
  bool const has_versions =
      cudaDriverGetVersion(&driver) == cudaSuccess && cudaRuntimeGetVersion(&runtime) == cudaSuccess;
  return {{"name", name()},
          {"compute_capability", std::to_string(device.major) + "." + std::to_string(device.minor)},
          {"multiprocessors", std::to_string(device.multiProcessorCount)},
          {"memory_bytes", std::to_string(device.totalGlobalMem)},
          {"l2_bytes", std::to_string(device.l2CacheSize)},
          {"shared_bytes_per_multiprocessor", std::to_string(device.sharedMemPerMultiprocessor)},
          {"clock_khz", attribute(cudaDevAttrClockRate)},
          {"memory_clock_khz", attribute(cudaDevAttrMemoryClockRate)},
          {"memory_bus_bits", std::to_string(device.memoryBusWidth)},
          {"ecc", device.ECCEnabled != 0 ? "on" : "off"},
          {"driver_supports_cuda", has_versions ? std::to_string(driver) : ""},
          {"cuda_runtime", has_versions ? std::to_string(runtime) : ""}};
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

/// The same GPU before all others, between which no order is known.
inline int distance_to(std::string const& other) { return other == identity() ? -1 : 0; }

inline std::vector<std::pair<std::string, std::string>> facts() {
  auto const& device = Kokkos::HIP().hip_device_prop();
  int driver = 0;
  int runtime = 0;
  bool const has_versions = hipDriverGetVersion(&driver) == hipSuccess && hipRuntimeGetVersion(&runtime) == hipSuccess;
  return {{"name", name()},
          {"architecture", device.gcnArchName},
          {"compute_units", std::to_string(device.multiProcessorCount)},
          {"memory_bytes", std::to_string(device.totalGlobalMem)},
          {"l2_bytes", std::to_string(device.l2CacheSize)},
          {"shared_bytes_per_block", std::to_string(device.sharedMemPerBlock)},
          {"clock_khz", std::to_string(device.clockRate)},
          {"memory_clock_khz", std::to_string(device.memoryClockRate)},
          {"memory_bus_bits", std::to_string(device.memoryBusWidth)},
          {"driver", has_versions ? std::to_string(driver) : ""},
          {"hip_runtime", has_versions ? std::to_string(runtime) : ""}};
}

#else

inline constexpr std::optional<Backend> backend = std::nullopt;
inline std::optional<int> num_devices() { return std::nullopt; }
inline std::string name() { return ""; }
inline int number() { return 0; }
inline std::string identity() { return ""; }
inline std::optional<std::size_t> free_memory() { return std::nullopt; }
inline int distance_to(std::string const& /*other*/) { return 0; }
inline std::vector<std::pair<std::string, std::string>> facts() { return {}; }

#endif

} // namespace varve::gpu
