#include "arrays.hpp"

#include "core/error.hpp"
#include "core/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace nb = nanobind;

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

template <class Scalar>
SampleSet from_dense(Matrix<Scalar> const& matrix, std::string const& place, Precision precision) {
  SampleSet samples;
  auto& sparse = samples.matrix;
  sparse.num_rows = matrix.shape(0);
  sparse.num_columns = matrix.shape(1);
  sparse.row_pointers.reserve(sparse.num_rows + 1);
  Scalar const* const begin = matrix.data();
  auto const is_stored = [](Scalar value) { return value != Scalar{0}; };
  auto const num_entries = static_cast<std::size_t>(std::count_if(begin, begin + matrix.size(), is_stored));
  sparse.column_indices.reserve(num_entries);
  sparse.values.reserve(num_entries);
  for (std::size_t row = 0; row < sparse.num_rows; ++row) {
    for (std::size_t column = 0; column < sparse.num_columns; ++column) {
      Scalar const value = begin[row * sparse.num_columns + column];
      if (!is_stored(value)) continue;
      if (!is_finite(static_cast<double>(value), precision)) fail_value(place, row, column, static_cast<double>(value));
      sparse.column_indices.push_back(static_cast<NeuronIndex>(column));
      sparse.values.push_back(static_cast<double>(value));
    }
    sparse.row_pointers.push_back(sparse.column_indices.size());
  }
  make_iso_if_equal(sparse);
  return samples;
}

/// Throws InputError unless all columns can be numbered.
void require_width(std::size_t num_columns, std::string const& place) {
  if (num_columns > std::numeric_limits<NeuronIndex>::max())
    throw InputError(fmt::format("{} has {} columns, expected at most {}", place, num_columns,
                                 std::numeric_limits<NeuronIndex>::max()));
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
  auto stored = rows.copy(place);
  auto const values = std::exchange(stored.values, {0.0}); // the values are checked below, with better words
  require_valid(stored, place.c_str());
  SampleSet samples;
  auto& matrix = samples.matrix;
  matrix.num_rows = stored.num_rows;
  matrix.num_columns = stored.num_columns;
  matrix.row_pointers.reserve(stored.row_pointers.size());
  for (std::size_t row = 0; row < stored.num_rows; ++row) {
    for (EdgeOffset entry = stored.row_pointers[row]; entry < stored.row_pointers[row + 1]; ++entry) {
      auto const value = values[entry];
      if (value == 0.0) continue;
      if (!is_finite(value, precision)) fail_value(place, row, stored.column_indices[entry], value);
      matrix.column_indices.push_back(stored.column_indices[entry]);
      matrix.values.push_back(value);
    }
    matrix.row_pointers.push_back(matrix.column_indices.size());
  }
  make_iso_if_equal(matrix);
  return samples;
}

SampleSet to_samples(Matrix<float> const& matrix, std::string const& place, Precision precision) {
  require_width(matrix.shape(1), place);
  return from_dense(matrix, place, precision);
}

SampleSet to_samples(Matrix<double> const& matrix, std::string const& place, Precision precision) {
  require_width(matrix.shape(1), place);
  return from_dense(matrix, place, precision);
}

std::vector<NeuronIndex> to_classes(Vector<std::int64_t> const& labels, std::size_t num_classes,
                                    std::string const& place) {
  std::vector<NeuronIndex> classes;
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    auto const label = labels.data()[sample];
    if (label < 0 || static_cast<std::uint64_t>(label) >= num_classes)
      throw InputError(fmt::format("{}: sample {} has the label {}, expected 0 to {}, the last output of the network",
                                   place, sample, label, static_cast<std::int64_t>(num_classes) - 1));
    classes.push_back(static_cast<NeuronIndex>(label));
  }
  return classes;
}

nb::tuple to_tuple(SparseMatrix const& matrix) {
  std::vector<double> values = matrix.values;
  values.resize(matrix.num_entries(), matrix.values.empty() ? 0.0 : matrix.values.front());
  std::vector<std::int64_t> columns(matrix.column_indices.begin(), matrix.column_indices.end());
  std::vector<std::int64_t> pointers(matrix.row_pointers.begin(), matrix.row_pointers.end());
  return nb::make_tuple(to_numpy(std::move(values)), to_numpy(std::move(columns)), to_numpy(std::move(pointers)));
}

} // namespace varve::python
