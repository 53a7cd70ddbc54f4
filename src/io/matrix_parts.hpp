#pragma once

#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// The lists of a sparse matrix as a file of another program stores them, unchecked. All indices count from 0.
struct MatrixParts {
  enum class Layout { by_rows, by_columns, pairs }; ///< CSR, CSC, COO

  Layout layout = Layout::by_rows;
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  std::vector<EdgeOffset> pointers; ///< by_rows: one per row and one more; by_columns: one per column and one more
  std::vector<NeuronIndex> rows;    ///< the row of each entry; empty with by_rows
  std::vector<NeuronIndex> columns; ///< the column of each entry; empty with by_columns
  std::vector<double> values;       ///< one per entry, or one for all
};

/// Throws InputError "PLACE: ..." if the indices of a matrix of this shape cannot be stored, or if its rows are so many
/// more than its entries that they would fill the memory.
void require_countable(std::uint64_t num_rows, std::uint64_t num_columns, std::uint64_t num_entries,
                       std::string const& place);

/// The matrix with its columns in ascending order. Entries of value 0 stay. Throws InputError "PLACE: ..." if lists do
/// not belong together, an index lies outside the matrix, an entry is given twice, or a value is not finite.
SparseMatrix to_matrix(MatrixParts&& parts, std::string const& place);

/// Indices as a matrix stores them; numbers too large for that become the largest, which no matrix has.
std::vector<NeuronIndex> to_neurons(std::vector<std::uint64_t> const& indices);

/// Removes the entries of value 0.
void drop_zeros(SparseMatrix& matrix);

/// The matrix with rows and columns exchanged.
SparseMatrix transposed_matrix(SparseMatrix&& matrix, std::string const& place);

/// The rows of a matrix, or a range of them, as samples in memory. Throws UsageError, naming the file, if it does not
/// contain the range.
std::unique_ptr<SampleReader> samples_of_matrix(SparseMatrix&& matrix, std::filesystem::path const& path,
                                                OptionalSampleRange const& range);

} // namespace varve
