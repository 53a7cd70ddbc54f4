#pragma once

#include "io/matrix_block.hpp"

#include <cstdint>

namespace varve {

/// How the numbers of a tile lie before they are packed: number (line, k) is at line * line_stride + k * depth_stride.
/// A line is a row of op(A) or a column of op(B).
struct LooseTile {
  std::int64_t num_lines = 0;
  std::int64_t depth = 0;
  std::int64_t line_stride = 0;
  std::int64_t depth_stride = 0;
};

/// What a tile holds of its matrix as it is stored, and how the numbers of that block lie, read row by row.
struct TileExtent {
  MatrixBlock block;
  LooseTile shape;
};

} // namespace varve
