#include "apps/benchmark_machine.hpp"

#include "core/backend.hpp"
#include "core/host.hpp"
#include "core/host_threads.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"
#include "distribute/communicator.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

extern char** environ;

namespace varve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The first line of a file; null if there is none.
Json first_line(fs::path const& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && !line.empty() ? Json(line) : Json();
}

/// The number in a file; null if there is none.
Json number_in(fs::path const& path) {
  std::ifstream file(path);
  double number = 0.0;
  return file >> number ? Json(number) : Json();
}

constexpr double no_limit = 1e18; // version 1 of control groups writes a number of this size where there is none

/// Processors in cpu.max of version 2, "QUOTA PERIOD" or "max PERIOD", or in the two files of version 1.
double processors_of(fs::path const& group) {
  double quota = 0.0;
  double period = 0.0;
  if (!(std::ifstream(group / "cpu.max") >> quota >> period)) {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return quota > 0.0 && period > 0.0 ? quota / period : no_limit;
}

double memory_of(fs::path const& group) {
  double bytes = no_limit;
  for (char const* const name : {"memory.max", "memory.limit_in_bytes"})
    if (auto const limit = number_in(group / name); limit.is_number()) bytes = std::min(bytes, limit.get<double>());
  return bytes;
}

/// The folders of the control groups of this process and of their parents, in the mount points that are usual. (In a
/// container the group itself may not be visible: then the mount point stands for it.)
std::vector<fs::path> group_folders(fs::path const& root) {
  std::vector<fs::path> folders;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    auto const first = line.find(':');
    auto const second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    auto const controllers = line.substr(first + 1, second - first - 1);
    fs::path folder = root / "sys/fs/cgroup" / controllers;
    folders.push_back(folder);
    for (auto const& name : fs::path(line.substr(second + 1)).relative_path()) {
      if (name == "..") break;
      folder /= name;
      folders.push_back(folder);
    }
  }
  return folders;
}

/// Settings in the environment that change how fast programs run; no others, which are nobody's business.
Json settings() {
  auto found = Json::object();
  constexpr std::array<std::string_view, 10> beginnings = {
      "OMP_", "GOMP_", "KMP_", "KOKKOS_", "CUDA_", "HIP_", "ROCR_", "HSA_", "OMPI_COMM_WORLD_SIZE=", "SLURM_CPUS"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string_view const text = *variable;
    auto const is_one = [&](std::string_view beginning) { return text.starts_with(beginning); };
    auto const equals = text.find('=');
    if (equals != std::string_view::npos && std::ranges::any_of(beginnings, is_one))
      found[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return found;
}

Json as_json(Facts const& facts) {
  auto json = Json::object();
  for (auto const& [name, value] : facts) json[name] = value.empty() ? Json() : Json(value);
  return json;
}

/// The text of the first processor in proc/cpuinfo under one of these keys, the first on x86, the second on Arm; null
/// if there is none.
Json processor_field(fs::path const& root, std::string_view key, std::string_view key_on_arm) {
  std::ifstream processors(root / "proc/cpuinfo");
  for (std::string line; std::getline(processors, line) && !line.empty();) {
    auto const colon = line.find(": ");
    auto const name = std::string_view(line).substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (colon != std::string::npos && (name == key || name == key_on_arm)) return line.substr(colon + 2);
  }
  return {};
}

/// Those instruction sets of the processor that change how fast kernels run, by the kernel's names; null if unknown.
Json instruction_sets(fs::path const& root) {
  auto const flags = processor_field(root, "flags", "Features");
  if (flags.is_null()) return {};
  auto found = Json::array();
  std::istringstream words(flags.get<std::string>());
  std::vector<std::string> const all{std::istream_iterator<std::string>(words), {}};
  for (char const* const name : {"avx", "fma", "avx2", "avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_vnni",
                                 "avx512_bf16", "avx512_fp16", "amx_tile", "asimd", "sve", "sve2"})
    if (std::ranges::find(all, name) != all.end()) found.push_back(name);
  return found;
}

/// The cores of the machine, each of which runs one or more processing units; null if unknown.
Json count_cores(fs::path const& root) {
  std::set<std::string> cores;
  for (int unit = 0;; ++unit) {
    auto const siblings =
        first_line(root / fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", unit));
    if (siblings.is_null()) return cores.empty() ? Json() : Json(cores.size());
    cores.insert(siblings);
  }
}

Json describe_processor(fs::path const& root) {
  auto const model = processor_name(root);
  fs::path const clocks = root / "sys/devices/system/cpu/cpu0/cpufreq";
  return {{"model", model.empty() ? Json() : Json(model)},
          {"family_number", processor_field(root, "cpu family", "CPU implementer")},
          {"model_number", processor_field(root, "model", "CPU part")},
          {"instruction_sets", instruction_sets(root)},
          {"units_allowed", num_host_threads()},
          {"governor", first_line(clocks / "scaling_governor")},
          {"max_clock_khz", number_in(clocks / "scaling_max_freq")},
          {"clock_khz", number_in(clocks / "scaling_cur_freq")},
          {"topology", {{"cores", count_cores(root)}}}};
}

Json describe_system(fs::path const& root) {
  utsname system{};
  bool const is_known = uname(&system) == 0;
  auto const pages = sysconf(_SC_PHYS_PAGES);
  auto const page = sysconf(_SC_PAGESIZE);
  bool const has_pages = pages > 0 && page > 0;
  return {{"kernel", is_known ? Json(std::string(system.sysname) + " " + system.release) : Json()},
          {"architecture", is_known ? Json(system.machine) : Json()},
          {"memory_bytes", has_pages ? Json(static_cast<double>(pages) * static_cast<double>(page)) : Json()},
          {"available_memory_bytes", available_host_memory(root)},
          {"load_average_1_minute", number_in(root / "proc/loadavg")},
          {"huge_pages", first_line(root / "sys/kernel/mm/transparent_hugepage/enabled")}};
}

} // namespace

nlohmann::ordered_json describe_group_limits(fs::path const& root) {
  double processors = no_limit;
  double bytes = no_limit;
  for (auto const& folder : group_folders(root)) {
    processors = std::min(processors, processors_of(folder));
    bytes = std::min(bytes, memory_of(folder));
  }
  auto const limit = [](double number) { return number < no_limit ? Json(number) : Json(); };
  return {{"processors", limit(processors)}, {"memory_bytes", limit(bytes)}};
}

nlohmann::ordered_json describe_machine(fs::path const& root) {
  auto kokkos = Json{{"version", provenance.kokkos_version}, {"backends", provenance.kokkos_backends}};
  kokkos.update(as_json(kokkos_facts()));
  Json gpu;
  for (Backend const backend : compiled_backends())
    if (auto const facts = device_facts(backend); !facts.empty()) gpu = as_json(facts);
  if (!gpu.is_null()) gpu["driver_module"] = first_line(root / "proc/driver/nvidia/version");
  return {{"host", host_name()},
          {"processor", describe_processor(root)},
          {"system", describe_system(root)},
          {"control_group", describe_group_limits(root)},
          {"gpu", gpu},
          {"build",
           {{"version", provenance.version},
            {"git_commit", provenance.git_commit},
            {"compiler", provenance.compiler},
            {"build_type", provenance.build_type},
            {"flags", provenance.flags}}},
          {"kokkos", kokkos},
          {"mpi", mpi_library()},
          {"environment", settings()}};
}

} // namespace varve
