#pragma once

#include <vector>

namespace varve {

/// Summary of repeated measurements of one time, in seconds.
struct Timings {
  double median = 0.0;
  double spread = 0.0; ///< interquartile range divided by the median
};

/// The value below which this part (0 to 1) of the measurements lies, by linear interpolation. `sorted` is ascending
/// and not empty.
double quantile(std::vector<double> const& sorted, double part);

/// Summarizes at least one measurement.
Timings summarize(std::vector<double> seconds);

/// True if `one` is faster by more than either spread and by more than 2 %. Smaller differences between alternating
/// measurements come from other load on the machine and do not justify an option.
bool is_clearly_faster(Timings const& one, Timings const& other);

} // namespace varve
