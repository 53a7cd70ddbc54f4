#pragma once

#include "core/types.hpp"

#include <varve/matrix.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace varve {

/// The weights of a layer have one row per output neuron and one column per input neuron; a sample set has one row per
/// sample and one column per input neuron. Columns ascend within each row unless a pass chose another edge order.
using SparseMatrix = v0_3::CsrMatrix;

/// True if two numbers are stored as the same bits: 0 and -0 differ.
inline bool same_bits(double left, double right) {
  return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right);
}

/// Replaces the values by a single shared one if there are at least two and all are equal, bit for bit.
void make_iso_if_equal(SparseMatrix& matrix);

/// Drops the entries of value 0, and makes one value of equal ones.
void drop_zeros(SparseMatrix& matrix);

/// The nonzero values of a dense matrix [num_rows, num_columns], one value if all are equal. All host threads work on a
/// large one. Calls fail(row, column), which must throw, for the first value that is not finite in this precision.
/// (float and double)
template <class Scalar>
SparseMatrix compressed(std::span<Scalar const> values, std::size_t num_rows, std::size_t num_columns,
                        Precision precision, std::function<void(std::size_t, std::size_t)> const& fail);

/// The rows [first, last) of a matrix, with all columns.
SparseMatrix rows_of(SparseMatrix const& matrix, std::size_t first, std::size_t last);

/// Throws InputError, naming `what`, unless row pointers ascend from 0 to the number of entries, column indices ascend,
/// are distinct within each row and below num_columns, and values are finite and one per entry or one for all.
void require_valid(SparseMatrix const& matrix, char const* what);

/// The edges of a layer by input (compressed sparse columns), as the backward pass of training reads them.
struct TransposedEdges {
  std::vector<EdgeOffset> row_pointers; ///< first edge of each input, then the number of edges
  std::vector<NeuronIndex> outputs;     ///< output of each edge; ascending within each input
  std::vector<EdgeOffset> edges;        ///< index of each edge in the matrix, whose rows are outputs
};

/// Sorts the edges of a valid matrix by column, then by row. Time is linear in entries, rows and columns.
TransposedEdges transposed(SparseMatrix const& matrix);

} // namespace varve
