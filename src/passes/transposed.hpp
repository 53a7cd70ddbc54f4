#pragma once

#include "network/sparse_matrix.hpp"

#include <vector>

namespace varve {

/// The edges of a layer by input: what training walks through backward.
struct TransposedEdges {
  std::vector<EdgeOffset> row_pointers; ///< of the inputs, one more than there are
  std::vector<NeuronIndex> outputs;     ///< ascending within each input
  std::vector<EdgeOffset> edges;        ///< number of the edge in the matrix, whose rows are outputs
};

/// Sorts the edges of a valid matrix by column, then by row. Time is linear in entries, rows and columns.
TransposedEdges transposed(SparseMatrix const& matrix);

} // namespace varve
