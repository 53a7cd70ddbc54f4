#pragma once

#include "core/types.hpp"
#include "network/sample_set.hpp"
#include "network/sparse_matrix.hpp"

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Between arrays of Python and the types of network/. Sparse matrices, samples, answers and biases of others come in
/// through the functions of this file and no others.
namespace varve::python {

/// A one-dimensional array that is read.
template <class Element>
using Vector = nanobind::ndarray<Element const, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

/// A matrix, row by row, that is read.
template <class Element>
using Matrix = nanobind::ndarray<Element const, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

/// An array that is returned.
template <class Element>
using Numpy = nanobind::ndarray<nanobind::numpy, Element>;

/// The arrays of a matrix in compressed sparse rows, as scipy.sparse.csr_array holds them. They are
/// memory of others, which may hold anything and change at any time: everything that reads them copies, then checks.
class CompressedRows {
public:
  CompressedRows(Vector<std::int64_t> row_pointers, Vector<std::int64_t> column_indices, Vector<double> values,
                 std::size_t num_rows, std::size_t num_columns)
      : row_pointers_(std::move(row_pointers)),
        column_indices_(std::move(column_indices)),
        values_(std::move(values)),
        num_rows_(num_rows),
        num_columns_(num_columns) {}

  /// A copy with all entries, stored zeros included. Throws InputError, naming `place`, unless it is a valid matrix
  /// (require_valid) with one value per entry, all of them finite.
  SparseMatrix matrix(std::string const& place) const;

private:
  /// A copy with a value per entry and columns in range; the caller checks the rest by require_valid().
  SparseMatrix copy(std::string const& place) const;
  friend SampleSet to_samples(CompressedRows const& rows, std::string const& place, Precision precision);

  Vector<std::int64_t> row_pointers_, column_indices_;
  Vector<double> values_;
  std::size_t num_rows_, num_columns_;
};

/// A copy of the elements.
template <class Element>
std::vector<Element> to_vector(Vector<Element> const& array) {
  return {array.data(), array.data() + array.size()};
}

/// The samples of a matrix [samples, neurons], without zeros; if all other values are equal, they are stored once.
/// Throws InputError, naming `place` and the sample (from 0), if the matrix is malformed or a value is no finite number
/// of the precision. They need no GIL.
SampleSet to_samples(CompressedRows const& rows, std::string const& place, Precision precision);
SampleSet to_samples(Matrix<float> const& matrix, std::string const& place, Precision precision);
SampleSet to_samples(Matrix<double> const& matrix, std::string const& place, Precision precision);

/// The classes of samples. Throws InputError, naming `place` and the sample (from 0), if one is not below num_classes.
std::vector<NeuronIndex> to_classes(Vector<std::int64_t> const& labels, std::size_t num_classes,
                                    std::string const& place);

/// A NumPy array of this shape that owns the elements. Needs the GIL.
template <class Element>
Numpy<Element> to_numpy(std::vector<Element> elements, std::initializer_list<std::size_t> shape) {
  auto owned = std::make_unique<std::vector<Element>>(std::move(elements));
  auto* const data = owned->data();
  nanobind::capsule const owner(owned.get(),
                                [](void* vector) noexcept { delete static_cast<std::vector<Element>*>(vector); });
  static_cast<void>(owned.release());
  return Numpy<Element>(data, shape, owner);
}

/// A one-dimensional NumPy array that owns the elements. Needs the GIL.
template <class Element>
Numpy<Element> to_numpy(std::vector<Element> elements) {
  auto const size = elements.size();
  return to_numpy(std::move(elements), {size});
}

/// The tuple (values, column indices, row pointers) of a matrix, one value per entry. Needs the GIL.
nanobind::tuple to_tuple(SparseMatrix const& matrix);

} // namespace varve::python
