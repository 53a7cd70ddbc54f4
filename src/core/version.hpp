#pragma once

#include <string_view>

namespace varve {

/// Version of docs/numerics.md: binaries with the same version give the same bits for the same inputs and options.
inline constexpr int kNumerics = 1;

/// Sources and tools of this binary, for reports.
struct Provenance {
  std::string_view version; ///< version of Varve
  /// Abbreviated hash; "-dirty" is appended if files differed from it; "unknown" outside a checkout.
  std::string_view git_commit;
  std::string_view compiler;        ///< compiler name and version
  std::string_view build_type;      ///< CMake build type
  std::string_view flags;           ///< host compiler flags, including those of the build type and the processor
  std::string_view kokkos_version;  ///< version of Kokkos, followed by the version of Kokkos Kernels if it is linked
  std::string_view kokkos_backends; ///< comma-separated, in lower case
};

extern Provenance const provenance;

} // namespace varve
