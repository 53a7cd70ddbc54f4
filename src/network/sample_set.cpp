#include "network/sample_set.hpp"

namespace varve {

void append_rows(SampleSet& all, SampleSet const& part) {
  SparseMatrix& matrix = all.matrix;
  if (matrix.num_rows == 0) {
    all = part;
    return;
  }
  EdgeOffset const offset = matrix.num_entries();
  for (std::size_t row = 1; row <= part.num_samples(); ++row)
    matrix.row_pointers.push_back(offset + part.matrix.row_pointers[row]);
  matrix.num_rows += part.num_samples();
  matrix.column_indices.insert(matrix.column_indices.end(), part.matrix.column_indices.begin(),
                               part.matrix.column_indices.end());
  matrix.values.insert(matrix.values.end(), part.matrix.values.begin(), part.matrix.values.end());
}

} // namespace varve
