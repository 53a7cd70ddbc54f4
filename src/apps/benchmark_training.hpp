#pragma once

#include "apps/benchmark_options.hpp"
#include "apps/benchmark_run.hpp"

namespace varve {

/// Times steps of training with mini-batches of 128 samples on networks from fixed seeds. The backends take turns, step
/// by step. Before anything is timed, the weights after two steps must have the bits of the reference's plain loops,
/// and after all steps those of the other backends. Adds the records to `run`. Throws ResourceError about other bits.
void measure_training(BenchmarkOptions const& options, BenchmarkRun& run);

} // namespace varve
