#include "core/runtime.hpp"

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/gpu.hpp"
#include "core/host.hpp"
#include "core/host_threads.hpp"
#include "core/kokkos_settings.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#if defined(KOKKOS_ENABLE_OPENMP)
#include <omp.h>
#endif

namespace varve {
namespace {

/// The processors on which OpenMP places its threads; none unless it binds them.
std::vector<int> processors_of_openmp() {
  std::vector<int> numbers;
#if defined(KOKKOS_ENABLE_OPENMP)
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> of_place(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, of_place.data());
    numbers.insert(numbers.end(), of_place.begin(), of_place.end());
  }
#endif
  return numbers;
}

template <class... Spaces>
std::vector<Backend> backends_of(SpaceList<Spaces...> /*spaces*/) {
  return {to_backend<Spaces>()...};
}

/// The name of the program and the --kokkos-* options, which are removed from the arguments. Kokkos gets no others: it
/// would answer --help as well.
std::vector<char*> taken_kokkos_arguments(int& num_arguments, char** arguments) {
  setenv("OMP_PROC_BIND", "false", 0); // false is OpenMP's default; setting it only silences Kokkos's advice to set it
  char** const end = arguments + num_arguments;
  char** const ours_end = std::stable_partition(
      arguments + 1, end, [](char const* argument) { return !std::string_view(argument).starts_with("--kokkos-"); });
  std::vector<char*> for_kokkos = {arguments[0]};
  for_kokkos.insert(for_kokkos.end(), ours_end, end);
  num_arguments = static_cast<int>(ours_end - arguments);
  return for_kokkos;
}

} // namespace

std::string to_string(Backend backend) {
  switch (backend) {
  case Backend::serial:
    return "serial";
  case Backend::openmp:
    return "openmp";
  case Backend::cuda:
    return "cuda";
  case Backend::hip:
    return "hip";
  }
  throw std::logic_error("varve: unknown backend");
}

bool has_own_memory(Backend backend) { return backend == Backend::cuda || backend == Backend::hip; }

std::vector<Backend> compiled_backends() { return backends_of(CompiledSpaces()); }

std::string compiled_backend_names() {
  std::string names;
  for (Backend const backend : compiled_backends()) names += (names.empty() ? "" : ", ") + to_string(backend);
  return names;
}

Backend parse_backend(std::string const& name) {
  for (Backend const backend : compiled_backends()) {
    if (to_string(backend) == name) return backend;
  }
  throw UsageError("this build has no backend '" + name + "'; it has: " + compiled_backend_names());
}

Runtime::Runtime(int& num_arguments, char** arguments) {
  auto for_kokkos = taken_kokkos_arguments(num_arguments, arguments);
  auto const num_devices = gpu::num_devices();
  require_valid_settings(std::span(for_kokkos).subspan(1), num_devices);
  if (num_devices == 0) {
    throw ResourceError("this build is for GPUs (backend " + to_string(*gpu::backend) +
                        "), but this machine shows none: there is none, or no driver, or the job was given none");
  }
  auto num_for_kokkos = static_cast<int>(for_kokkos.size());
  for_kokkos.push_back(nullptr);
  try {
    Kokkos::initialize(num_for_kokkos, for_kokkos.data());
  } catch (std::exception const& failure) {
    throw ResourceError(std::string("Kokkos could not start: ") + failure.what());
  }
  allow_processors(processors_of_openmp());
}

void start_on_host(int& num_arguments, char** arguments) {
  auto const for_kokkos = taken_kokkos_arguments(num_arguments, arguments);
  require_valid_settings(std::span(for_kokkos).subspan(1), std::nullopt);
  allow_processors(processors_of_openmp());
}

Runtime::~Runtime() { Kokkos::finalize(); }

std::string device_name(Backend backend) {
  if (backend == gpu::backend) return gpu::name() + " (device " + std::to_string(gpu::number()) + ")";
#if defined(KOKKOS_ENABLE_OPENMP)
  if (backend == Backend::openmp) {
    int const threads = Kokkos::OpenMP().concurrency();
    return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }
#endif
  return "1 thread";
}

std::string device_identity(Backend backend) {
  return backend == gpu::backend ? hexadecimal(gpu::identity()) : std::string();
}

std::size_t available_memory(Backend backend) {
  if (backend != gpu::backend) return available_host_memory();
  auto const free_bytes = gpu::free_memory();
  if (!free_bytes) throw ResourceError("the GPU does not say how much memory is free");
  return *free_bytes;
}

} // namespace varve
