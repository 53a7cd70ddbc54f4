#pragma once

/// \file
/// Versions of headers and library.

#include <varve/namespace.hpp>

#include <string>

/// The major version of these headers.
#define VARVE_VERSION_MAJOR 0
/// The minor version of these headers.
#define VARVE_VERSION_MINOR 3
/// The patch version of these headers.
#define VARVE_VERSION_PATCH 0

namespace varve::v0_3 {

/// What the library was built from.
struct BuildDescription {
  std::string version;         ///< "0.3.0"
  std::string commit;          ///< abbreviated; "unknown" outside a checkout
  std::string compiler;        ///< name and version
  std::string build_type;      ///< of CMake
  std::string kokkos_version;  ///< of Kokkos
  std::string kokkos_backends; ///< with commas, in lower case
};

/// What the linked library was built from.
BuildDescription build_description();

} // namespace varve::v0_3
