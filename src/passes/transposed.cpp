#include "passes/transposed.hpp"

#include <numeric>

namespace varve {

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
