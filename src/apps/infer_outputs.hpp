#pragma once

#include "apps/infer_job.hpp"
#include "core/stopwatch.hpp"

namespace varve {

/// Collects the results of all ranks, writes all outputs and prints the result. Returns the exit code, on every rank.
int finish_job(InferJob& job, Stopwatch const& total_time);

} // namespace varve
