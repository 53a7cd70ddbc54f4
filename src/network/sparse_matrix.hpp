#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace varve {

/// Compressed sparse rows, 0-based. Weights of a layer have one row per output neuron and one column per input neuron;
/// a sample set has one row per sample and one column per input neuron.
struct SparseMatrix {
  std::size_t num_rows = 0;
  std::size_t num_columns = 0;
  std::vector<EdgeOffset> row_pointers = {0}; ///< num_rows + 1 ascending offsets; entries of row r are [r], [r + 1)
  std::vector<NeuronIndex> column_indices;    ///< distinct within each row; ascending unless a pass chose otherwise
  std::vector<double> values;                 ///< one per entry; or exactly one, shared by all entries ("iso")

  EdgeOffset num_entries() const { return column_indices.size(); }
  bool is_iso() const { return values.size() == 1 && num_entries() != 1; }
  double value(EdgeOffset entry) const { return values.size() == 1 ? values[0] : values[entry]; }
  EdgeOffset row_size(std::size_t row) const { return row_pointers[row + 1] - row_pointers[row]; }
  std::span<NeuronIndex const> row_columns(std::size_t row) const {
    return {column_indices.data() + row_pointers[row], static_cast<std::size_t>(row_size(row))};
  }

  bool operator==(SparseMatrix const&) const = default;
};

/// Stores the values once if all are equal (bit for bit) and there is more than one entry; else leaves them.
void make_iso_if_equal(SparseMatrix& matrix);

/// The rows [first, last) of a matrix, with all columns.
SparseMatrix rows_of(SparseMatrix const& matrix, std::size_t first, std::size_t last);

/// Throws InputError, naming `what`, unless pointers ascend, indices are ascending, distinct and below num_columns, and
/// values are finite and of the right number.
void require_valid(SparseMatrix const& matrix, char const* what);

} // namespace varve
