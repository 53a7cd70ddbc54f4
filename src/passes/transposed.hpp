#pragma once

#include "network/sparse_matrix.hpp"

#include <vector>

namespace varve {

/// The edges of a layer by input (compressed sparse columns), as the backward pass of training reads them.
struct TransposedEdges {
  std::vector<EdgeOffset> row_pointers; ///< first edge of each input, then the number of edges
  std::vector<NeuronIndex> outputs;     ///< output of each edge; ascending within each input
  std::vector<EdgeOffset> edges;        ///< index of each edge in the matrix, whose rows are outputs
};

/// Sorts the edges of a valid matrix by column, then by row. Time is linear in entries, rows and columns.
TransposedEdges transposed(SparseMatrix const& matrix);

} // namespace varve
