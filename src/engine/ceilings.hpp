#pragma once

#include "core/backend.hpp"
#include "core/types.hpp"

#include <cstddef>

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

} // namespace varve
