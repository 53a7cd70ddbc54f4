#pragma once

#include "io/matrix_block.hpp"

#include <cstdint>
#include <string>

namespace varve {

/// A dense matrix in memory that belongs to someone else: number (row, column) is at
/// data[row * row_stride + column * column_stride]. Strides may be negative.
template <class Element>
struct StridedMatrix {
  Element* data = nullptr;
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

/// Copies a block, rounded to Scalar, row by row to `values`, on all host threads. Throws InputError, naming `place`,
/// row and column, if a number is not finite or Scalar cannot hold it. (float and double, from float and double)
template <class Element, class Scalar>
void read_block(StridedMatrix<Element const> const& matrix, std::string const& place, MatrixBlock const& block,
                Scalar* values);

/// Copies the numbers of a block, which lie row by row, to their places, on all host threads. (float and double)
template <class Scalar>
void write_block(StridedMatrix<Scalar> const& matrix, MatrixBlock const& block, Scalar const* values);

} // namespace varve
