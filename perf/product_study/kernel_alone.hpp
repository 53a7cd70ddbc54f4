#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace varve::product_study {

/// The sizes of a product: C has rows x columns numbers, each the sum of `depth` products.
struct Sizes {
  int rows = 0;
  int columns = 0;
  int depth = 0;

  double num_fma() const {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  }
};

/// The median seconds of the product's kernel on packed matrices in device memory, and of cuBLAS on the same numbers
/// row by row.
struct KernelTimes {
  double own_seconds = 0.0;
  double cublas_seconds = 0.0;     ///< 0 without cuBLAS
  char shape = '-';                ///< of the kernel's teams: L, M or S, where it has several
  std::size_t num_other_bits = 0;  ///< of the numbers that were compared with plain loops
  double largest_difference = 0.0; ///< of cuBLAS from plain loops
};

/// Times the kernel alone `repeat` times in turn with cuBLAS; small products several at a time, so that a time is one
/// of a millisecond at least. Compares 200 numbers of C with plain loops before. `cublas`: a shared library, empty:
/// none. Throws UsageError if a library is named for another backend than CUDA or cannot be used.
template <Backend backend, class Scalar>
KernelTimes time_kernel(Sizes const& sizes, std::string const& cublas, std::size_t repeat);

} // namespace varve::product_study
