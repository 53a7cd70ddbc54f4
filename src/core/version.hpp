#pragma once

#include <string_view>

namespace varve {

/// What this binary was built from, for reports.
struct Provenance {
  std::string_view version;    ///< of Varve
  std::string_view git_commit; ///< abbreviated, with "-dirty" if files differed from it; "unknown" outside a checkout
  std::string_view compiler;   ///< name and version
  std::string_view build_type; ///< of CMake
  std::string_view flags;      ///< for host code: of the build type, and the processor compiled for
  std::string_view kokkos_version;  ///< of Kokkos, and of Kokkos Kernels if it is in
  std::string_view kokkos_backends; ///< comma-separated, lower case
  std::string_view cuda_version;    ///< of the toolkit; empty without CUDA
};

extern Provenance const provenance;

} // namespace varve
