#include <varve/types.hpp>

#include "core/version.hpp"
#include "library/crossing.hpp"

#include <varve/version.hpp>

namespace varve::v0_3 {

std::string to_string(Backend backend) { return varve::to_string(to_private(backend)); }

Backend parse_backend(std::string const& name) { return to_public(varve::parse_backend(name)); }

std::vector<Backend> compiled_backends() {
  std::vector<Backend> backends;
  for (auto const backend : varve::compiled_backends()) backends.push_back(to_public(backend));
  return backends;
}

BuildDescription build_description() {
  auto const& from = varve::provenance;
  return {std::string(from.version),    std::string(from.git_commit),     std::string(from.compiler),
          std::string(from.build_type), std::string(from.kokkos_version), std::string(from.kokkos_backends)};
}

} // namespace varve::v0_3
