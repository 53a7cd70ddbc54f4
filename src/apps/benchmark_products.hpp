#pragma once

#include "apps/benchmark_options.hpp"
#include "apps/benchmark_run.hpp"

namespace varve {

/// Times dense products of matrices in memory as `varve multiply` computes them, with tiles read, packed, multiplied
/// and finished. Backends, and in builds with Kokkos Kernels its gemm, take turns. Before anything is timed, 1000
/// numbers must have the bits of plain loops, those of gemm agree within rounding, and all numbers have the bits of the
/// other backends. Adds the records to `run`. Throws ResourceError about a wrong product.
void measure_products(BenchmarkOptions const& options, BenchmarkRun& run);

} // namespace varve
