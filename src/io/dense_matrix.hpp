#pragma once

#include "core/error.hpp"
#include "network/sparse_matrix.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

namespace varve {

/// The order in which a dense matrix is stored: row by row, or column by column.
enum class DenseOrder { by_rows, by_columns };

struct DenseShape {
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  DenseOrder order = DenseOrder::by_rows;
};

/// The nonzero numbers of a dense matrix. read(visit) calls visit(number) for all numbers in their order; it is called
/// twice, so that memory holds nothing but the result. Throws InputError "PLACE: ..." if a number is not finite or the
/// numbers differ the second time. The caller has checked the shape (require_countable).
template <class Read>
SparseMatrix matrix_of_dense(DenseShape const& shape, std::string const& place, Read const& read) {
  bool const is_by_rows = shape.order == DenseOrder::by_rows;
  std::uint64_t const fastest = is_by_rows ? shape.num_columns : shape.num_rows;
  auto const for_each_nonzero = [&](auto const& visit) {
    std::uint64_t inner = 0;
    std::uint64_t outer = 0;
    read([&](double value) {
      if (value != 0.0) visit(is_by_rows ? outer : inner, is_by_rows ? inner : outer, value);
      if (++inner < fastest) return;
      inner = 0;
      ++outer;
    });
  };
  SparseMatrix matrix;
  matrix.num_rows = shape.num_rows;
  matrix.num_columns = shape.num_columns;
  auto& pointers = matrix.row_pointers;
  pointers.assign(matrix.num_rows + 1, 0);
  for_each_nonzero([&](std::uint64_t row, std::uint64_t, double) { ++pointers[row + 1]; });
  std::partial_sum(pointers.begin(), pointers.end(), pointers.begin());
  matrix.column_indices.resize(pointers.back());
  matrix.values.resize(pointers.back());
  // Each pointer runs over its row and ends at the next one, which the shift corrects.
  for_each_nonzero([&](std::uint64_t row, std::uint64_t column, double value) {
    auto const entry = pointers[row]++;
    if (entry >= matrix.column_indices.size()) throw InputError(place + " changed while it was read");
    matrix.column_indices[entry] = static_cast<NeuronIndex>(column);
    matrix.values[entry] = value;
  });
  std::shift_right(pointers.begin(), pointers.end(), 1);
  pointers.front() = 0;
  require_valid(matrix, place.c_str());
  make_iso_if_equal(matrix);
  return matrix;
}

} // namespace varve
