#pragma once

#include <string>
#include <vector>

namespace varve {

/// A launch of a kernel, or a named region of the program.
struct TracedSpan {
  std::string name;
  double begin = 0.0; ///< seconds since the trace began
  double end = 0.0;
  bool is_region = false; ///< a region, which contains launches; false: a launch
};

/// Times every kernel launch by Kokkos's tool interface during the lifetime of an object. Kokkos then fences before and
/// after each launch, so launches do not overlap and the run takes longer: trace separate runs, never timed ones. At
/// most one object may exist at a time, and no other tool may be loaded.
class LaunchTrace {
public:
  LaunchTrace();
  ~LaunchTrace();
  LaunchTrace(LaunchTrace const&) = delete;
  LaunchTrace& operator=(LaunchTrace const&) = delete;

  /// All spans that have ended, launches and regions, ordered by begin.
  std::vector<TracedSpan> spans() const;
};

/// True if a tool was loaded into Kokkos (KOKKOS_TOOLS_LIBS, --kokkos-tools-libs). LaunchTrace would displace it, and
/// it costs time in each launch.
bool has_kokkos_tool();

} // namespace varve
