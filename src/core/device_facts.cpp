#include "core/device_facts.hpp"

#include "core/gpu.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

namespace varve {
namespace {

/// The text after "NAME: " on the first such line; empty if there is none.
std::string value_of(std::string const& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(name) || line.size() < name.size() + 2 || line[name.size()] != ':') continue;
    return line.substr(name.size() + 2);
  }
  return {};
}

} // namespace

Facts device_facts(Backend backend) { return backend == gpu::backend ? gpu::facts() : Facts(); }

Facts kokkos_facts() {
  std::ostringstream text;
  Kokkos::print_configuration(text, false);
  return {{"cpu_architecture", value_of(text.str(), "CPU architecture")},
          {"gpu_architecture", value_of(text.str(), "GPU architecture")},
          {"host_threads", std::to_string(Kokkos::DefaultHostExecutionSpace().concurrency())}};
}

} // namespace varve
