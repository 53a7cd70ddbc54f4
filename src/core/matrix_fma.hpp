#pragma once

#include <Kokkos_Core.hpp>

/// The FP64 tensor cores of NVIDIA GPUs of compute capability 8.0 or more, which Kokkos does not have. The inline
/// assembly is in this file alone.
namespace varve {

/// The part that a thread holds of a piece of a sum of products: 16 x 8 sums, 16 x 4 numbers of A, 4 x 8 of B. Lane l
/// of a warp holds the rows l / 4 and l / 4 + 8 of A and of the sums; column l % 4 of A and row l % 4 of B; the
/// columns 2 * (l % 4) and the next of the sums; column l / 4 of B.
struct MatrixSums {
  double of_row[2][2];
};

/// Adds four products to each of the 16 x 8 sums of a warp, as four fma in ascending order of k, each rounded to
/// nearest: the bits are those of the chain, with subnormals, infinities and zeros of either sign (perf/TRIED.md; test
/// products_engine). All lanes of the warp must call it together.
KOKKOS_FORCEINLINE_FUNCTION void add_matrix_product([[maybe_unused]] MatrixSums& sums,
                                                    [[maybe_unused]] double const (&a)[2], [[maybe_unused]] double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};\n"
               : "+d"(sums.of_row[0][0]), "+d"(sums.of_row[0][1]), "+d"(sums.of_row[1][0]), "+d"(sums.of_row[1][1])
               : "d"(a[0]), "d"(a[1]), "d"(b));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};\n"
                 : "+d"(sums.of_row[half][0]), "+d"(sums.of_row[half][1])
                 : "d"(a[half]), "d"(b));
  }
#endif
}

} // namespace varve
