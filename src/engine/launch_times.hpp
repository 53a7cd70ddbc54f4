#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// A launch of a kernel, or a named region of the program.
struct TracedSpan {
  std::string name;
  double begin = 0.0; ///< seconds since the trace began
  double end = 0.0;
  bool is_region = false; ///< a region, which contains launches, rather than a launch
};

/// Times every launch of a kernel, by Kokkos's interface for tools, while an object of this class lives. Kokkos fences
/// before and after each launch then, so launches do not overlap and the whole takes longer than without: trace runs
/// of their own, never runs that are timed. At most one object may live at a time, and no other tool may be loaded.
class LaunchTrace {
public:
  LaunchTrace();
  ~LaunchTrace();
  LaunchTrace(LaunchTrace const&) = delete;
  LaunchTrace& operator=(LaunchTrace const&) = delete;

  /// All spans that have ended, launches and regions, by their beginning.
  std::vector<TracedSpan> spans() const;
};

/// True if a tool was loaded into Kokkos (KOKKOS_TOOLS_LIBS, --kokkos-tools-libs), which LaunchTrace would displace and
/// which costs time in each launch.
bool has_kokkos_tool();

} // namespace varve
