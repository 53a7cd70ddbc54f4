#pragma once

#include "core/backend.hpp"
#include "core/types.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace varve {

/// Highest rates of a backend's device as measured on this machine, each by a kernel that does nothing else. Each is
/// the best of many runs in several rounds, because other load on the machine may slow a whole round. Steps of a plan
/// are rated by their share of these.
struct Ceilings {
  std::size_t copy_bytes = 0;             ///< size of the array that was copied
  double copy_bytes_per_second = 0.0;     ///< copies between arrays that exceed all caches, reads and writes together
  double gather_bytes_per_second = 0.0;   ///< random rows of 64 bytes from 32 KiB, which fit the nearest cache
  double far_gather_bytes_per_second = 0; ///< the same from an array of copy_bytes bytes
  double fma_per_second = 0.0;            ///< independent fused multiply-adds in registers
  double launch_seconds = 0.0;            ///< time per launch of an empty kernel, in a sequence of many
};

/// The better value of each member, from two measurements of one backend and precision.
Ceilings best_of(Ceilings const& one, Ceilings const& other);

/// Measures in num_rounds rounds of less than a second each. Allocates up to an eighth of the available memory. Throws
/// UsageError if the build lacks the backend.
Ceilings measure_ceilings(Backend backend, Precision precision, int num_rounds);

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
