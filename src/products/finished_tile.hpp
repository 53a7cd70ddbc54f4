#pragma once

#include "io/matrix_block.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// The finished sums of a task, which start at 0 and add the products in ascending order of k. They are stored in
/// blocks of block_rows x block_columns numbers, row by row; numbers past the task's own are padding.
template <class Scalar>
struct TileSums {
  Scalar const* sums = nullptr;
  MatrixBlock block; ///< the block of C
  std::size_t block_rows = 1;
  std::size_t block_columns = 1;

  std::size_t blocks_across() const {
    return (static_cast<std::size_t>(block.num_columns) + block_columns - 1) / block_columns;
  }
};

/// Scaling of the sums of op(A) op(B): C = alpha * sum + beta * C0.
struct ProductScaling {
  double alpha = 1.0;
  double beta = 0.0; ///< ignored without C0
};

/// Writes the numbers of a tile row by row to `values` and returns their hash. A number is alpha * sum in double, or
/// with `added` fma(alpha, sum, beta * added), rounded once more to Scalar; never -0. The hash is the sum over all
/// tiles of the fingerprints of nonzero numbers, modulo 2^64 (see activation_fingerprint()), so it does not depend on
/// the tiles; it equals hash_of_block(). `added`: the numbers of C0 row by row, or null. Throws InputError, naming row
/// and column, if a number is not finite.
template <class Scalar>
std::uint64_t finish_tile(TileSums<Scalar> const& sums, ProductScaling const& scaling, Scalar const* added,
                          Scalar* values);

} // namespace varve
