#include "arrays.hpp"

#include "core/error.hpp"
#include "core/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace varve::python {
namespace {

bool is_finite(double value, Precision precision) {
  return precision == Precision::single_precision ? std::isfinite(static_cast<float>(value)) : std::isfinite(value);
}

[[noreturn]] void fail_value(std::string const& place, std::size_t row, std::size_t column, double value) {
  if (std::isfinite(value)) {
    throw InputError(
        fmt::format("{}: sample {} has the value {} at neuron {}, beyond {}, the largest number of float32; "
                    "precision='float64' can hold it",
                    place, row, value, column, std::numeric_limits<float>::max()));
  }
  throw InputError(
      fmt::format("{}: sample {} has the value {} at neuron {}, expected a finite number", place, row, value, column));
}

/// Throws InputError unless all columns can be numbered.
void require_width(std::size_t num_columns, std::string const& place) {
  if (num_columns > std::numeric_limits<NeuronIndex>::max())
    throw InputError(fmt::format("{} has {} columns, expected at most {}", place, num_columns,
                                 std::numeric_limits<NeuronIndex>::max()));
}

template <class Scalar>
SampleSet from_dense(Matrix<Scalar> const& matrix, std::string const& place, Precision precision) {
  auto const num_columns = matrix.shape(1);
  require_width(num_columns, place);
  auto const fail = [&](std::size_t row, std::size_t column) {
    fail_value(place, row, column, static_cast<double>(matrix.data()[row * num_columns + column]));
  };
  return {
      compressed(std::span<Scalar const>(matrix.data(), matrix.size()), matrix.shape(0), num_columns, precision, fail)};
}

} // namespace

SparseMatrix CompressedRows::copy(std::string const& place) const {
  require_width(num_columns_, place);
  SparseMatrix matrix;
  matrix.num_rows = num_rows_;
  matrix.num_columns = num_columns_;
  matrix.row_pointers.assign(row_pointers_.data(), row_pointers_.data() + row_pointers_.size());
  matrix.column_indices.reserve(column_indices_.size());
  for (std::size_t entry = 0; entry < column_indices_.size(); ++entry) {
    auto const column = column_indices_.data()[entry];
    if (column < 0 || static_cast<std::uint64_t>(column) >= num_columns_)
      throw InputError(fmt::format("{}: entry {} is in column {}, expected 0 to {}", place, entry, column,
                                   static_cast<std::int64_t>(num_columns_) - 1));
    matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
  }
  if (values_.size() != matrix.num_entries())
    throw InputError(fmt::format("{}: found {} values for {} entries", place, values_.size(), matrix.num_entries()));
  matrix.values = to_vector(values_);
  return matrix;
}

SparseMatrix CompressedRows::matrix(std::string const& place) const {
  auto matrix = copy(place);
  require_valid(matrix, place.c_str());
  return matrix;
}

SampleSet to_samples(CompressedRows const& rows, std::string const& place, Precision precision) {
  SampleSet samples{rows.copy(place)};
  auto& matrix = samples.matrix;
  auto values = std::exchange(matrix.values, {0.0}); // the values are checked below, with better words
  require_valid(matrix, place.c_str());
  matrix.values = std::move(values);
  auto const bad = std::ranges::find_if_not(matrix.values, [&](double value) { return is_finite(value, precision); });
  if (bad != matrix.values.end()) {
    auto const entry = static_cast<EdgeOffset>(bad - matrix.values.begin());
    auto const after = std::ranges::upper_bound(matrix.row_pointers, entry);
    fail_value(place, static_cast<std::size_t>(after - matrix.row_pointers.begin()) - 1, matrix.column_indices[entry],
               *bad);
  }
  drop_zeros(matrix);
  return samples;
}

SampleSet to_samples(Matrix<float> const& matrix, std::string const& place, Precision precision) {
  return from_dense(matrix, place, precision);
}

SampleSet to_samples(Matrix<double> const& matrix, std::string const& place, Precision precision) {
  return from_dense(matrix, place, precision);
}

std::vector<NeuronIndex> to_classes(Vector<std::int64_t> const& labels, std::size_t num_classes,
                                    std::string const& place) {
  std::vector<NeuronIndex> classes;
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    auto const label = labels.data()[sample];
    if (label < 0 || static_cast<std::uint64_t>(label) >= num_classes)
      throw InputError(fmt::format("{}: sample {} has the label {}, expected 0 to {}, the last class of the network",
                                   place, sample, label, static_cast<std::int64_t>(num_classes) - 1));
    classes.push_back(static_cast<NeuronIndex>(label));
  }
  return classes;
}

nanobind::tuple to_tuple(SparseMatrix const& matrix) {
  std::vector<double> values = matrix.values;
  values.resize(matrix.num_entries(), matrix.values.empty() ? 0.0 : matrix.values.front());
  std::vector<std::int64_t> columns(matrix.column_indices.begin(), matrix.column_indices.end());
  std::vector<std::int64_t> pointers(matrix.row_pointers.begin(), matrix.row_pointers.end());
  return nanobind::make_tuple(to_numpy(std::move(values)), to_numpy(std::move(columns)), to_numpy(std::move(pointers)));
}

} // namespace varve::python
