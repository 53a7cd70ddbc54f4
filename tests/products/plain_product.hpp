#pragma once

#include "io/matrix_block.hpp"
#include "products/product_engine.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace varve::test {

/// A dense matrix in memory, row by row.
template <class Scalar>
struct Dense {
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  std::vector<Scalar> values;

  Scalar& at(std::uint64_t row, std::uint64_t column) { return values[row * num_columns + column]; }
  Scalar at(std::uint64_t row, std::uint64_t column) const { return values[row * num_columns + column]; }

  ReadBlock<Scalar> reader() const {
    return [this](MatrixBlock const& block, Scalar* to) {
      for (std::uint64_t row = 0; row < block.num_rows; ++row) {
        for (std::uint64_t column = 0; column < block.num_columns; ++column)
          *to++ = at(block.first_row + row, block.first_column + column);
      }
    };
  }
};

/// Numbers whose products do not add up exactly, in any other order to other bits.
template <class Scalar>
Dense<Scalar> random_dense(std::uint64_t num_rows, std::uint64_t num_columns, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  Dense<Scalar> matrix{num_rows, num_columns, std::vector<Scalar>(num_rows * num_columns)};
  for (auto& value : matrix.values) value = static_cast<Scalar>(uniform(generator));
  return matrix;
}

/// Which numbers a matrix holds: `wide` ones have binary exponents from -30 to 30, products of `tiny` ones are
/// subnormal or underflow, `few` are -3 to 3, whose sums cancel to zero.
enum class Numbers { wide, tiny, few };

template <class Scalar>
Dense<Scalar> random_dense(std::uint64_t num_rows, std::uint64_t num_columns, unsigned seed, Numbers numbers) {
  auto matrix = random_dense<Scalar>(num_rows, num_columns, seed);
  std::mt19937 generator(seed + 1000);
  int const half_of_subnormal = (std::numeric_limits<Scalar>::min_exponent - std::numeric_limits<Scalar>::digits) / 2;
  for (auto& value : matrix.values) {
    auto const random = static_cast<int>(generator() % 61);
    if (numbers == Numbers::wide) value = std::ldexp(value, random - 30);
    if (numbers == Numbers::tiny) value = std::ldexp(value, half_of_subnormal + random % 25 - 4);
    if (numbers == Numbers::few) value = std::round(value * 3);
  }
  return matrix;
}

template <class Scalar>
Dense<Scalar> transposed(Dense<Scalar> const& matrix) {
  Dense<Scalar> result{matrix.num_columns, matrix.num_rows, std::vector<Scalar>(matrix.values.size())};
  for (std::uint64_t row = 0; row < matrix.num_rows; ++row) {
    for (std::uint64_t column = 0; column < matrix.num_columns; ++column)
      result.at(column, row) = matrix.at(row, column);
  }
  return result;
}

/// The chain of docs/numerics.md for every number, by plain loops.
template <class Scalar>
Dense<Scalar> plain_product(Dense<Scalar> const& a, Dense<Scalar> const& b) {
  Dense<Scalar> c{a.num_rows, b.num_columns, std::vector<Scalar>(a.num_rows * b.num_columns)};
  for (std::uint64_t row = 0; row < c.num_rows; ++row) {
    for (std::uint64_t column = 0; column < c.num_columns; ++column) {
      Scalar sum = 0;
      for (std::uint64_t k = 0; k < a.num_columns; ++k) sum = std::fma(a.at(row, k), b.at(k, column), sum);
      c.at(row, column) = sum;
    }
  }
  return c;
}

/// Copies a tile of sums from its blocks into C.
template <class Scalar>
void keep(Dense<Scalar>& c, TileSums<Scalar> const& tile) {
  auto const across = tile.blocks_across();
  for (std::uint64_t row = 0; row < tile.block.num_rows; ++row) {
    for (std::uint64_t column = 0; column < tile.block.num_columns; ++column) {
      auto const block = row / tile.block_rows * across + column / tile.block_columns;
      auto const place =
          (block * tile.block_rows + row % tile.block_rows) * tile.block_columns + column % tile.block_columns;
      c.at(tile.block.first_row + row, tile.block.first_column + column) = tile.sums[place];
    }
  }
}

} // namespace varve::test
