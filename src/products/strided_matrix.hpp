#pragma once

#include "io/matrix_block.hpp"

#include <varve/product.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace varve {

template <class Element>
using StridedMatrix = v0_3::DenseView<Element>;

/// Calls visit(number of the matrix, index in the block) on host threads for every number of a block, on each thread in
/// memory order of the matrix; then done(rows, index) for the rows that a thread has visited.
template <class Element, class Visit, class Done>
void for_each_number(StridedMatrix<Element> const& matrix, MatrixBlock const& block, Visit const& visit,
                     Done const& done) {
  auto* const begin = matrix.data + static_cast<std::int64_t>(block.first_row) * matrix.row_stride +
                      static_cast<std::int64_t>(block.first_column) * matrix.column_stride;
  auto const num_columns = static_cast<std::int64_t>(block.num_columns);
  for_each_rows(block, [&](std::uint64_t first, std::uint64_t last) {
    auto const at = [&](std::int64_t row, std::int64_t column) {
      visit(begin[row * matrix.row_stride + column * matrix.column_stride], row * num_columns + column);
    };
    auto const first_row = static_cast<std::int64_t>(first);
    auto const last_row = static_cast<std::int64_t>(last);
    if (std::abs(matrix.column_stride) <= std::abs(matrix.row_stride)) {
      for (auto row = first_row; row < last_row; ++row)
        for (std::int64_t column = 0; column < num_columns; ++column) at(row, column);
    } else {
      for (std::int64_t column = 0; column < num_columns; ++column)
        for (auto row = first_row; row < last_row; ++row) at(row, column);
    }
    done(MatrixBlock{block.first_row + first, last - first, block.first_column, block.num_columns},
         first_row * num_columns);
  });
}

/// Copies a block, rounded to Scalar, row by row to `values`. Throws InputError, naming `place`, row and column, if a
/// number is not finite or exceeds Scalar.
template <class Element, class Scalar>
void read_block(StridedMatrix<Element> const& matrix, std::string const& place, MatrixBlock const& block,
                Scalar* values) {
  for_each_number(
      matrix, block, [&](Element value, std::int64_t index) { values[index] = static_cast<Scalar>(value); },
      [&](MatrixBlock const& rows, std::int64_t first) { require_finite(rows, values + first, place); });
}

/// Copies the numbers of a block, stored row by row, to their places in the matrix.
template <class Scalar>
void write_block(StridedMatrix<Scalar> const& matrix, MatrixBlock const& block, Scalar const* values) {
  for_each_number(
      matrix, block, [&](Scalar& value, std::int64_t index) { value = values[index]; },
      [](MatrixBlock const&, std::int64_t) {});
}

} // namespace varve
