#include "core/runtime.hpp"

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/host.hpp"
#include "core/kokkos_settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varve {
std::string to_string(Backend backend) {
  switch (backend) {
  case Backend::serial:
    return "serial";
  case Backend::openmp:
    return "openmp";
  case Backend::cuda:
    return "cuda";
  }
  throw std::logic_error("varve: unknown backend");
}

bool has_own_memory(Backend backend) { return backend == Backend::cuda; }

std::vector<Backend> compiled_backends() {
  std::vector<Backend> backends;
  if (kHasCuda) backends.push_back(Backend::cuda);
  if (kHasOpenMP) backends.push_back(Backend::openmp);
  if (kHasSerial) backends.push_back(Backend::serial);
  return backends;
}

Backend parse_backend(std::string const& name) {
  std::string names;
  for (Backend const backend : compiled_backends()) {
    if (to_string(backend) == name) return backend;
    names += (names.empty() ? "" : ", ") + to_string(backend);
  }
  throw UsageError("this build has no backend '" + name + "'; it has: " + names);
}

namespace {

/// Number of GPUs; nullopt in builds without a GPU backend.
std::optional<int> num_devices() {
#if defined(KOKKOS_ENABLE_CUDA)
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
#else
  return std::nullopt;
#endif
}

} // namespace

Runtime::Runtime(int& num_arguments, char** arguments) {
  setenv("OMP_PROC_BIND", "false", 0); // false is OpenMP's default; setting it only silences Kokkos's advice to set it
  // Pass only the --kokkos-* options on: Kokkos would otherwise answer --help as well.
  char** const end = arguments + num_arguments;
  char** const ours_end = std::stable_partition(
      arguments + 1, end, [](char const* argument) { return !std::string_view(argument).starts_with("--kokkos-"); });
  std::vector<char*> for_kokkos = {arguments[0]};
  for_kokkos.insert(for_kokkos.end(), ours_end, end);
  require_valid_settings(std::span(for_kokkos).subspan(1), num_devices());
  auto num_for_kokkos = static_cast<int>(for_kokkos.size());
  for_kokkos.push_back(nullptr);
  num_arguments = static_cast<int>(ours_end - arguments);
  try {
    Kokkos::initialize(num_for_kokkos, for_kokkos.data());
  } catch (std::exception const& failure) {
    throw ResourceError(std::string("Kokkos could not start: ") + failure.what());
  }
}

Runtime::~Runtime() { Kokkos::finalize(); }

std::string device_name(Backend backend) {
#if defined(KOKKOS_ENABLE_CUDA)
  if (backend == Backend::cuda) {
    Kokkos::Cuda const device;
    return std::string(device.cuda_device_prop().name) + " (device " + std::to_string(device.cuda_device()) + ")";
  }
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
  if (backend == Backend::openmp) {
    int const threads = Kokkos::OpenMP().concurrency();
    return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }
#endif
  return "1 thread";
}

std::string device_identity([[maybe_unused]] Backend backend) {
  std::string identity;
#if defined(KOKKOS_ENABLE_CUDA)
  if (backend == Backend::cuda) {
    constexpr char const* digits = "0123456789abcdef";
    Kokkos::Cuda const device;
    for (char const letter : device.cuda_device_prop().uuid.bytes) {
      auto const byte = static_cast<unsigned char>(letter);
      identity += digits[byte / 16];
      identity += digits[byte % 16];
    }
  }
#endif
  return identity;
}

std::size_t available_memory(Backend backend) {
#if defined(KOKKOS_ENABLE_CUDA)
  if (backend == Backend::cuda) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) {
      throw ResourceError("the CUDA device does not say how much memory is free");
    }
    return free_bytes;
  }
#endif
  (void)backend;
  return available_host_memory();
}

} // namespace varve
