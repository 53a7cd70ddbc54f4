#include "core/runtime.hpp"

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/gpu.hpp"
#include "core/host.hpp"
#include "core/host_threads.hpp"
#include "core/printable.hpp"

#include <unistd.h>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(KOKKOS_ENABLE_OPENMP)
#include <omp.h>
#endif

namespace varve {
namespace {

/// The processors to which OpenMP binds its threads; empty unless it binds them.
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

/// The number of threads that OpenMP starts for Kokkos.
std::size_t num_openmp_threads([[maybe_unused]] std::span<char* const> kokkos_arguments) {
#if defined(KOKKOS_ENABLE_OPENMP)
  auto const wanted =
      std::max(static_cast<std::size_t>(omp_get_max_threads()), num_threads_for_kokkos(kokkos_arguments));
  return std::min(wanted, static_cast<std::size_t>(omp_get_thread_limit()));
#else
  return 1;
#endif
}

/// State of the report if a library ends the process while it starts threads.
struct StartWatch {
  std::function<void(Error const&)> say;
  std::size_t num_threads = 0; ///< threads that are being started
};

StartWatch& start_watch() {
  static auto* const watch = new StartWatch; // never destroyed: it is read while the process ends
  return *watch;
}

/// Called when the process ends. If threads are being started then, reports that and ends the process with the exit
/// code of an error.
void end_failed_start() {
  auto& watch = start_watch();
  if (watch.num_threads == 0) return;
  ResourceError const error(std::to_string(watch.num_threads) +
                            " threads cannot be started; lower OMP_NUM_THREADS, or raise the limits of threads and "
                            "memory (ulimit -u, ulimit -v)");
  watch.say(error);
  _exit(static_cast<int>(error.kind()));
}

/// Starts Kokkos, watched unless its arguments ask for a help text, which ends the process.
void start_kokkos(std::vector<char*>& arguments, std::size_t num_threads) {
  auto number = static_cast<int>(arguments.size());
  bool const asks_for_help = std::ranges::any_of(std::span(arguments).subspan(1), [](std::string_view argument) {
    return argument.find("help") != std::string_view::npos;
  });
  arguments.push_back(nullptr);
  start_watch().num_threads = asks_for_help ? 0 : num_threads;
  try {
    Kokkos::initialize(number, arguments.data());
  } catch (std::exception const& failure) {
    start_watch().num_threads = 0;
    throw ResourceError(std::string("Kokkos could not start: ") + failure.what());
  }
  start_watch().num_threads = 0;
}

/// The name of the program and the --kokkos-* options, which are removed from the arguments. Kokkos gets no other
/// arguments: it would answer --help as well.
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

std::string v0_3::to_string(Backend backend) {
  constexpr std::array names = {"serial", "openmp", "cuda", "hip"};
  return names.at(static_cast<std::size_t>(backend));
}

bool has_own_memory(Backend backend) { return backend == Backend::cuda || backend == Backend::hip; }

Backend backend_of_kernels(Backend backend) {
  return backend == Backend::serial ? to_backend<Kokkos::DefaultHostExecutionSpace>() : backend;
}

std::vector<Backend> v0_3::compiled_backends() {
  auto backends = []<class... Spaces>(SpaceList<Spaces...> /*spaces*/) {
    return std::vector{to_backend<Spaces>()...};
  }(CompiledSpaces());
  if (backends.back() != Backend::serial) backends.push_back(Backend::serial);
  return backends;
}

std::string compiled_backend_names() {
  std::string names;
  for (Backend const backend : compiled_backends()) names += (names.empty() ? "" : ", ") + to_string(backend);
  return names;
}

Backend v0_3::parse_backend(std::string const& name) {
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
  auto const num_threads = num_openmp_threads(std::span(for_kokkos).subspan(1));
  require_room_for_threads(num_threads, stack_of_openmp_threads());
  start_kokkos(for_kokkos, num_threads);
  allow_processors(processors_of_openmp());
}

void set_start_failure_handler(std::function<void(Error const&)> say) {
  auto& watch = start_watch();
  if (!std::exchange(watch.say, std::move(say))) std::atexit(end_failed_start);
}

void start_on_host(int& num_arguments, char** arguments) {
  auto const for_kokkos = taken_kokkos_arguments(num_arguments, arguments);
  require_valid_settings(std::span(for_kokkos).subspan(1), std::nullopt);
  allow_processors(processors_of_openmp());
  limit_memory_to_available();
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

Facts device_facts(Backend backend) { return backend == gpu::backend ? gpu::facts() : Facts(); }

Facts kokkos_facts() {
  std::ostringstream text;
  Kokkos::print_configuration(text, false);
  auto const value_of = [lines = text.str()](std::string const& name) { // what follows "NAME: " on its line, or nothing
    auto const place = lines.find(name + ": ");
    auto const begin = place == std::string::npos ? lines.size() : place + name.size() + 2;
    return lines.substr(begin, lines.find('\n', begin) - begin);
  };
  return {{"cpu_architecture", value_of("CPU architecture")},
          {"gpu_architecture", value_of("GPU architecture")},
          {"host_threads", std::to_string(Kokkos::DefaultHostExecutionSpace().concurrency())}};
}

ProfilingRegion::ProfilingRegion(std::string const& label) { Kokkos::Profiling::pushRegion(label); }
ProfilingRegion::~ProfilingRegion() { Kokkos::Profiling::popRegion(); }

} // namespace varve
