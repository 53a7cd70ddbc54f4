#include "network/sparse_matrix.hpp"

#include "core/buffer_pool.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace varve {

void make_iso_if_equal(SparseMatrix& matrix) {
  if (matrix.values.size() < 2) return;
  auto const bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  auto const first = bits(matrix.values.front());
  if (std::ranges::all_of(matrix.values, [&](double value) { return bits(value) == first; })) {
    std::vector<double> shared(1, matrix.values.front());
    BufferPool<double>::of_process().recycle(std::exchange(matrix.values, std::move(shared)));
  }
}

SparseMatrix rows_of(SparseMatrix const& matrix, std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= matrix.num_rows, "row range lies outside the matrix");
  EdgeOffset const begin = matrix.row_pointers[first];
  EdgeOffset const end = matrix.row_pointers[last];
  SparseMatrix part;
  part.num_rows = last - first;
  part.num_columns = matrix.num_columns;
  part.row_pointers.resize(part.num_rows + 1);
  for (std::size_t row = 0; row <= part.num_rows; ++row) {
    part.row_pointers[row] = matrix.row_pointers[first + row] - begin;
  }
  part.column_indices.assign(matrix.column_indices.begin() + static_cast<std::ptrdiff_t>(begin),
                             matrix.column_indices.begin() + static_cast<std::ptrdiff_t>(end));
  if (matrix.values.size() == 1) {
    part.values = matrix.values;
  } else {
    part.values.assign(matrix.values.begin() + static_cast<std::ptrdiff_t>(begin),
                       matrix.values.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return part;
}

void require_valid(SparseMatrix const& matrix, char const* what) {
  auto const entries = matrix.num_entries();
  auto const& pointers = matrix.row_pointers;
  // comparing without num_rows + 1, which may overflow to 0
  bool const has_all = !pointers.empty() && pointers.size() - 1 == matrix.num_rows;
  if (!has_all || pointers.front() != 0 || pointers.back() != entries) {
    throw InputError(
        fmt::format("{}: the row pointers must be one more than the {} rows, from 0 to the number of entries, {}", what,
                    matrix.num_rows, entries));
  }
  if (matrix.values.size() != entries && !(matrix.values.size() == 1)) {
    throw InputError(fmt::format("{}: {} values for {} entries (expected one each, or one for all)", what,
                                 matrix.values.size(), entries));
  }
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    if (pointers[row] > pointers[row + 1] || pointers[row + 1] > entries) {
      throw InputError(fmt::format("{}: the row pointer after row {} is {}, expected {} to {}", what, row,
                                   pointers[row + 1], pointers[row], entries));
    }
  }
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = pointers[row]; entry < pointers[row + 1]; ++entry) {
      auto const column = matrix.column_indices[entry];
      if (column >= matrix.num_columns) {
        throw InputError(fmt::format("{}: row {} has column index {}, expected 0 to {}", what, row, column,
                                     static_cast<long long>(matrix.num_columns) - 1));
      }
      if (entry > pointers[row] && column <= matrix.column_indices[entry - 1]) {
        throw InputError(fmt::format("{}: row {} has column index {} after {}; indices must ascend and be distinct",
                                     what, row, column, matrix.column_indices[entry - 1]));
      }
    }
  }
  auto const bad = std::ranges::find_if(matrix.values, [](double value) { return !std::isfinite(value); });
  if (bad != matrix.values.end()) {
    throw InputError(fmt::format("{}: entry {} has the value {}, expected a finite number", what,
                                 bad - matrix.values.begin(), *bad));
  }
}

TransposedEdges transposed(SparseMatrix const& matrix) {
  TransposedEdges by_input;
  by_input.row_pointers.assign(matrix.num_columns + 1, 0);
  for (auto const column : matrix.column_indices) ++by_input.row_pointers[column + 1];
  std::partial_sum(by_input.row_pointers.begin(), by_input.row_pointers.end(), by_input.row_pointers.begin());
  by_input.outputs.resize(matrix.num_entries());
  by_input.edges.resize(matrix.num_entries());
  auto next = by_input.row_pointers;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset edge = matrix.row_pointers[row]; edge < matrix.row_pointers[row + 1]; ++edge) {
      EdgeOffset const place = next[matrix.column_indices[edge]]++;
      by_input.outputs[place] = static_cast<NeuronIndex>(row);
      by_input.edges[place] = edge;
    }
  }
  return by_input;
}

} // namespace varve
