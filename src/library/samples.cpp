#include <varve/samples.hpp>

#include "library/crossing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace varve::v0_2 {
namespace {

/// Drops entries of value 0, and makes one value of equal ones.
varve::SparseMatrix without_zeros(varve::SparseMatrix matrix) {
  if (std::find(matrix.values.begin(), matrix.values.end(), 0.0) != matrix.values.end()) {
    varve::SparseMatrix kept;
    kept.num_rows = matrix.num_rows;
    kept.num_columns = matrix.num_columns;
    for (std::size_t row = 0; row < matrix.num_rows; ++row) {
      for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
        if (matrix.value(entry) == 0.0) continue;
        kept.column_indices.push_back(matrix.column_indices[entry]);
        kept.values.push_back(matrix.value(entry));
      }
      kept.row_pointers.push_back(kept.column_indices.size());
    }
    matrix = std::move(kept);
  }
  varve::make_iso_if_equal(matrix);
  return matrix;
}

/// Throws InputError unless there are rows * columns values.
void require_size(std::size_t num_values, std::size_t rows, std::size_t columns) {
  constexpr std::size_t most_columns = std::numeric_limits<NeuronIndex>::max();
  bool const fits = columns == 0 ? num_values == 0 : num_values / columns == rows && num_values % columns == 0;
  if (!fits || columns > most_columns)
    throw InputError(fmt::format("samples: found {} values, expected {} samples of {} neurons each (at most {})",
                                 num_values, rows, columns, most_columns));
}

template <class Scalar>
varve::SampleSet from_values(std::span<Scalar const> values, std::size_t num_samples, std::size_t num_neurons) {
  require_size(values.size(), num_samples, num_neurons);
  varve::SampleSet samples;
  auto& matrix = samples.matrix;
  matrix.num_rows = num_samples;
  matrix.num_columns = num_neurons;
  matrix.row_pointers.reserve(num_samples + 1);
  for (std::size_t row = 0; row < num_samples; ++row) {
    for (std::size_t column = 0; column < num_neurons; ++column) {
      Scalar const value = values[row * num_neurons + column];
      if (value == Scalar{0}) continue;
      if (!std::isfinite(value))
        throw InputError(
            fmt::format("samples: sample {} has the value {} at neuron {} (counted from 0), expected a finite number",
                        row, value, column));
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      matrix.values.push_back(static_cast<double>(value));
    }
    matrix.row_pointers.push_back(matrix.column_indices.size());
  }
  varve::make_iso_if_equal(matrix);
  return samples;
}

} // namespace

Samples hold(varve::SampleSet set) {
  return Samples::Contents::wrapped(
      std::make_shared<Samples::Contents const>(Samples::Contents{varve::SampleBatch(std::move(set))}));
}

Samples::Samples(CsrView const& rows, SampleIndex first_sample)
    : Samples(hold({without_zeros(to_private(rows, "samples")), first_sample})) {}

Samples Samples::from_dense(std::span<float const> values, std::size_t num_samples, std::size_t num_neurons) {
  return hold(from_values(values, num_samples, num_neurons));
}

Samples Samples::from_dense(std::span<double const> values, std::size_t num_samples, std::size_t num_neurons) {
  return hold(from_values(values, num_samples, num_neurons));
}

std::size_t Samples::num_samples() const { return contents_->batch.num_samples(); }
std::size_t Samples::num_neurons() const { return contents_->batch.num_neurons(); }
EdgeOffset Samples::num_entries() const { return contents_->set().matrix.num_entries(); }
SampleIndex Samples::first_sample() const { return contents_->batch.first_sample(); }
CsrMatrix Samples::rows() const { return to_public(contents_->set().matrix); }

} // namespace varve::v0_2
