#pragma once

#include <vector>

namespace varve {

/// What repeated measurements of one time say. Seconds.
struct Timings {
  double median = 0.0;
  double spread = 0.0; ///< the width of the middle half of the measurements, as a part of the median
};

/// Of at least one measurement.
Timings summarize(std::vector<double> seconds);

/// True if the medians differ by more than either spread, and by more than 2 %, which is worth an option: measured in
/// turn with the other, less than that comes from elsewhere on the machine.
bool is_clearly_faster(Timings const& one, Timings const& other);

} // namespace varve
