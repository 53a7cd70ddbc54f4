#pragma once

#include "core/backend.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// VARVE_GPU(Malloc) is cudaMalloc or hipMalloc: the functions and types of the runtime library of the GPU's vendor,
/// which have the same names in both. A Kokkos build has at most one GPU backend.
#if defined(KOKKOS_ENABLE_CUDA)
#define VARVE_GPU(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#define VARVE_GPU(name) hip##name
#endif

/// Queries to that library, also defined in builds without GPU backend. num_devices(): GPUs that the process sees;
/// nullopt in builds without GPU backend. name(), number(), identity(): of the GPU in use (see device_name() and
/// device_identity()). free_memory(): bytes; nullopt if the runtime does not report them. distance_to(): distance of
/// the GPU with this identity from the GPU in use, by the runtime's rank of the links between them: smaller is nearer,
/// -1 for the same GPU, a large number if unknown. facts(): names and values for reports; clocks in kHz, sizes in
/// bytes.
namespace varve::gpu {

#if defined(KOKKOS_ENABLE_CUDA)

using Space = Kokkos::Cuda;
inline constexpr std::optional<Backend> backend = Backend::cuda;

inline auto const& properties() { return Space().cuda_device_prop(); }
inline int device_of(Space const& space) { return space.cuda_device(); }
inline auto stream_of(Space const& space) { return space.cuda_stream(); }

#elif defined(KOKKOS_ENABLE_HIP)

using Space = Kokkos::HIP;
inline constexpr std::optional<Backend> backend = Backend::hip;

inline auto const& properties() { return Space().hip_device_prop(); }
inline int device_of(Space const& space) { return space.hip_device(); }
inline auto stream_of(Space const& space) { return space.hip_stream(); }

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

#if defined(VARVE_GPU)

/// The reason if a call failed, else empty. Clears the error, so that the next call does not report it.
inline std::string failure(VARVE_GPU(Error_t) status) {
  if (status == VARVE_GPU(Success)) return {};
  static_cast<void>(VARVE_GPU(GetLastError)());
  return VARVE_GPU(GetErrorString)(status);
}

/// Throws std::runtime_error if a call failed.
inline void check(VARVE_GPU(Error_t) status) {
  if (auto const why = failure(status); !why.empty()) throw std::runtime_error("varve: GPU: " + why);
}

inline std::optional<int> num_devices() {
  int count = 0;
  return VARVE_GPU(GetDeviceCount)(&count) == VARVE_GPU(Success) ? count : 0;
}

inline std::string name() { return properties().name; }

inline int number() { return device_of(Space()); }

inline std::optional<std::size_t> free_memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (VARVE_GPU(MemGetInfo)(&free_bytes, &total_bytes) != VARVE_GPU(Success)) return std::nullopt;
  return free_bytes;
}

/// The versions of the driver and of the runtime library; empty if unknown.
inline std::pair<std::string, std::string> versions() {
  int driver = 0;
  int runtime = 0;
  bool const has_versions = VARVE_GPU(DriverGetVersion)(&driver) == VARVE_GPU(Success) &&
                            VARVE_GPU(RuntimeGetVersion)(&runtime) == VARVE_GPU(Success);
  return has_versions ? std::pair(std::to_string(driver), std::to_string(runtime))
                      : std::pair<std::string, std::string>();
}

#endif

#if defined(KOKKOS_ENABLE_CUDA)

inline std::string identity() {
  auto const& bytes = properties().uuid.bytes;
  return std::string(bytes, sizeof(bytes));
}

/// Copies between GPUs without a known link are the slowest.
inline constexpr int unknown_distance = 1 << 20;

inline int distance_to(std::string const& other) {
  if (other == identity()) return -1;
  for (int device = 0; device < num_devices().value_or(0); ++device) {
    cudaDeviceProp found{};
    if (cudaGetDeviceProperties(&found, device) != cudaSuccess) continue;
    if (std::string(found.uuid.bytes, sizeof(found.uuid.bytes)) != other) continue;
    int rank = 0;
    auto const status = cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, number(), device);
    return status == cudaSuccess ? rank : unknown_distance;
  }
  return unknown_distance;
}

inline std::vector<std::pair<std::string, std::string>> facts() {
  auto const& device = properties();
  auto const attribute = [](cudaDeviceAttr which) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, number()) == cudaSuccess ? std::to_string(value) : std::string();
  };
  auto const [driver, runtime] = versions();
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
          {"driver_supports_cuda", driver},
          {"cuda_runtime", runtime}};
}

#elif defined(KOKKOS_ENABLE_HIP)

/// The UUID and the PCI address, which distinguishes GPUs of a node that have no UUID.
inline std::string identity() {
  hipUUID uuid{};
  char place[32] = {};
  std::string bytes;
  if (hipDeviceGetUuid(&uuid, number()) == hipSuccess) bytes.assign(uuid.bytes, sizeof(uuid.bytes));
  if (hipDeviceGetPCIBusId(place, sizeof(place), number()) == hipSuccess) bytes += place;
  return bytes;
}

/// The same GPU first; the order of all others is unknown.
inline int distance_to(std::string const& other) { return other == identity() ? -1 : 0; }

inline std::vector<std::pair<std::string, std::string>> facts() {
  auto const& device = properties();
  auto const [driver, runtime] = versions();
  return {{"name", name()},
          {"architecture", device.gcnArchName},
          {"compute_units", std::to_string(device.multiProcessorCount)},
          {"memory_bytes", std::to_string(device.totalGlobalMem)},
          {"l2_bytes", std::to_string(device.l2CacheSize)},
          {"shared_bytes_per_block", std::to_string(device.sharedMemPerBlock)},
          {"clock_khz", std::to_string(device.clockRate)},
          {"memory_clock_khz", std::to_string(device.memoryClockRate)},
          {"memory_bus_bits", std::to_string(device.memoryBusWidth)},
          {"driver", driver},
          {"hip_runtime", runtime}};
}

#endif

} // namespace varve::gpu
