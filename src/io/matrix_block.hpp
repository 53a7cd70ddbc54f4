#pragma once

#include <cstdint>

namespace varve {

/// The rows [first_row, first_row + num_rows) and columns [first_column, first_column + num_columns) of a matrix. Its
/// numbers lie in memory row by row, without gaps.
struct MatrixBlock {
  std::uint64_t first_row = 0;
  std::uint64_t num_rows = 0;
  std::uint64_t first_column = 0;
  std::uint64_t num_columns = 0;

  std::uint64_t size() const { return num_rows * num_columns; }
};

} // namespace varve
