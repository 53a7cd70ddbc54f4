#pragma once

#include <varve/types.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace varve::v0_2 {

/// A sparse matrix in compressed sparse rows whose arrays belong to the caller. Entries of row r are
/// [row_pointers[r], row_pointers[r + 1]).
struct CsrView {
  std::size_t num_rows = 0, num_columns = 0;
  std::span<EdgeOffset const> row_pointers;    ///< num_rows + 1 of them, ascending from 0
  std::span<NeuronIndex const> column_indices; ///< ascending and distinct within each row, below num_columns
  std::span<double const> values;              ///< finite; one per entry, or exactly one for all entries
};

/// A sparse matrix in compressed sparse rows, as CsrView.
struct CsrMatrix {
  std::size_t num_rows = 0, num_columns = 0;
  std::vector<EdgeOffset> row_pointers = {0};
  std::vector<NeuronIndex> column_indices;
  std::vector<double> values;

  EdgeOffset num_entries() const { return column_indices.size(); }
  /// The value of an entry.
  double value(EdgeOffset entry) const { return values.size() == 1 ? values[0] : values[entry]; }

  operator CsrView() const { return {num_rows, num_columns, row_pointers, column_indices, values}; }

  bool operator==(CsrMatrix const&) const = default;
};

} // namespace varve::v0_2
