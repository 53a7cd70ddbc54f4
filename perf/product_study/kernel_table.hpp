#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace varve::product_study {

/// Times the kernel alone for each of these sizes ("ROWSxCOLUMNSxK"; empty: 4096^3, 8192^3 and the 16 of paper 004) in
/// float and in double, and prints the table of perf/results/products.md. Returns 1 if a number has other bits than
/// plain loops, else 0. Throws UsageError about sizes, and what time_kernel() throws.
int print_kernel_table(Backend backend, std::vector<std::string> const& sizes, std::string const& cublas,
                       std::size_t repeat);

} // namespace varve::product_study
