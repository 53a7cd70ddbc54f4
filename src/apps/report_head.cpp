#include "apps/report_head.hpp"

#include "core/host.hpp"
#include "core/version.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace varve {
nlohmann::ordered_json report_head(std::string const& program) {
  return {{"program", program},
          {"version", provenance.version},
          {"numerics", kNumerics},
          {"git_commit", provenance.git_commit},
          {"compiler", provenance.compiler},
          {"build_type", provenance.build_type},
          {"kokkos_version", provenance.kokkos_version},
          {"host", host_name()},
          {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))}};
}

} // namespace varve
