#pragma once

#include "core/backend.hpp"
#include "core/types.hpp"

#include <cstddef>

namespace varve {

/// What a backend's device reaches at most here and now, each by a kernel that does nothing else; the best of many
/// runs in several rounds, because other load on the machine may slow a whole round. Steps of a plan are judged by
/// their shares of these.
struct Ceilings {
  std::size_t copy_bytes = 0;             ///< size of the array that was copied
  double copy_bytes_per_second = 0.0;     ///< copies between arrays that no cache holds, reads and writes together
  double gather_bytes_per_second = 0.0;   ///< rows of 64 bytes at random from 32 KiB, which the nearest cache holds
  double far_gather_bytes_per_second = 0; ///< the same from an array as large as the one that was copied
  double fma_per_second = 0.0;            ///< independent fused multiply-adds in registers
  double launch_seconds = 0.0;            ///< one of many launches of an empty kernel, one after the other
};

/// The best of each from two measurements of one backend and precision.
Ceilings best_of(Ceilings const& one, Ceilings const& other);

/// Measures in so many rounds, of less than a second each. Takes up to an eighth of the available memory. Throws
/// UsageError if the build lacks the backend.
Ceilings measure_ceilings(Backend backend, Precision precision, int num_rounds);

} // namespace varve
