#pragma once

#include "products/product_engine.hpp"

#include <cstdint>

namespace varve {

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
