#pragma once

#include "io/matrix_block.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// The finished sums of a task, which begin at 0 and take the products in ascending order of k. They lie in blocks of
/// block_rows x block_columns numbers, row by row; numbers beyond those of the task are padding.
template <class Scalar>
struct TileSums {
  Scalar const* sums = nullptr;
  MatrixBlock block; ///< of C
  std::size_t block_rows = 1;
  std::size_t block_columns = 1;

  std::size_t blocks_across() const {
    return (static_cast<std::size_t>(block.num_columns) + block_columns - 1) / block_columns;
  }
};

/// What is made of the sums of op(A) op(B): C = alpha * sum + beta * C0.
struct ProductScaling {
  double alpha = 1.0;
  double beta = 0.0; ///< without C0 it has no effect
};

/// Writes the numbers of a tile row by row to `values` and returns their hash: alpha * sum in double, or with `added`
/// fma(alpha, sum, beta * added), rounded once more to Scalar; never -0. The hash is the sum over all tiles of the
/// fingerprints of nonzero numbers, modulo 2^64 (see activation_fingerprint), so it does not depend on the tiles.
/// It is that of hash_of_block(). `added`: the numbers of C0 row by row, or null. Throws InputError, naming row and
/// column, if a number is not finite.
template <class Scalar>
std::uint64_t finish_tile(TileSums<Scalar> const& sums, ProductScaling const& scaling, Scalar const* added,
                          Scalar* values);

} // namespace varve
