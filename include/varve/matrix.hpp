#pragma once

/// \file
/// Sparse matrices in compressed sparse rows.

#include <varve/types.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace varve::v0_3 {

/// A sparse matrix in compressed sparse rows whose arrays belong to the caller. Entries of row r are
/// [row_pointers[r], row_pointers[r + 1]).
struct CsrView {
  std::size_t num_rows = 0;                    ///< rows
  std::size_t num_columns = 0;                 ///< columns
  std::span<EdgeOffset const> row_pointers;    ///< num_rows + 1 of them, ascending from 0
  std::span<NeuronIndex const> column_indices; ///< ascending and distinct within each row, below num_columns
  std::span<double const> values;              ///< finite; one per entry, or exactly one for all entries
};

/// A sparse matrix in compressed sparse rows that owns its arrays.
struct CsrMatrix {
  std::size_t num_rows = 0;                   ///< rows
  std::size_t num_columns = 0;                ///< columns
  std::vector<EdgeOffset> row_pointers = {0}; ///< num_rows + 1 of them, ascending from 0
  std::vector<NeuronIndex> column_indices;    ///< ascending and distinct within each row, below num_columns
  std::vector<double> values;                 ///< finite; one per entry, or exactly one for all entries

  /// Stored values.
  EdgeOffset num_entries() const { return column_indices.size(); }
  /// True if several entries share one value.
  bool is_iso() const { return values.size() == 1 && num_entries() != 1; }
  /// The value of an entry.
  double value(EdgeOffset entry) const { return values.size() == 1 ? values[0] : values[entry]; }
  /// Entries of a row.
  EdgeOffset row_size(std::size_t row) const { return row_pointers[row + 1] - row_pointers[row]; }
  /// The columns of a row.
  std::span<NeuronIndex const> row_columns(std::size_t row) const {
    return {column_indices.data() + row_pointers[row], static_cast<std::size_t>(row_size(row))};
  }

  /// The arrays of this matrix, which must outlive the view.
  operator CsrView() const { return {num_rows, num_columns, row_pointers, column_indices, values}; }

  /// Equal shapes and arrays.
  bool operator==(CsrMatrix const&) const = default;
};

} // namespace varve::v0_3
