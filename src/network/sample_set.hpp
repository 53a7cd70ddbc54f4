#pragma once

#include "network/sparse_matrix.hpp"

#include <cstddef>

namespace varve {

/// Samples to classify, or activations of samples: a sparse matrix [samples, neurons] and the number of its first
/// sample. Samples are numbered from 0 here; the challenge's text files and Varve's TSV outputs number them from 1.
struct SampleSet {
  SparseMatrix matrix;
  SampleIndex first_sample = 0; ///< number of row 0 within the whole input, from 0

  std::size_t num_samples() const { return matrix.num_rows; }
  std::size_t num_neurons() const { return matrix.num_columns; }

  bool operator==(SampleSet const&) const = default;
};

/// The samples [first, last) of a set, counted from its first row.
inline SampleSet samples_of(SampleSet const& samples, std::size_t first, std::size_t last) {
  return {rows_of(samples.matrix, first, last), samples.first_sample + first};
}

/// Appends the rows of `part`, which must have the same number of neurons; an empty set becomes a copy of the part.
void append_rows(SampleSet& all, SampleSet const& part);

} // namespace varve
