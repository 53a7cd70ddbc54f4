#pragma once

#include "apps/report.hpp"
#include "distribute/batch_queue.hpp"
#include "distribute/run_batches.hpp"

#include <vector>

namespace varve {

/// Adds what the ranks did within `seconds`. With Schedule::together, every rank has taken all samples. Does nothing if
/// the list is empty, as on all ranks but the first.
void add_run(Json& report, Schedule schedule, double seconds, std::vector<RankTimes> const& ranks);

/// Compares two ascending lists of sample numbers. Returns true if they are equal; otherwise adds the first
/// differences.
bool add_comparison(Json& report, std::vector<SampleIndex> const& truth, std::vector<SampleIndex> const& live_samples);

/// The lines before and after a run of `varve infer`.
void print_start(Json const& report);
void print_result(Json const& report);

} // namespace varve
