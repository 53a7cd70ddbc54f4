#pragma once

#include "io/hdf5.hpp"
#include "io/hdf5_matrix.hpp"
#include "io/matrix_block.hpp"

#include <cstdint>
#include <optional>

/// Reading of matrices that lie in their file as in memory, by all host threads and without HDF5.
namespace varve::hdf5 {

/// Where the numbers of a matrix lie in its file, row by row without gaps.
struct PlainPlace {
  int descriptor = -1;     ///< of the file, which HDF5 keeps open
  std::uint64_t begin = 0; ///< in bytes
};

/// nullopt where HDF5 has to read the numbers: they lie in chunks or in a header, are stored in another byte order, or
/// the file is being written. Hold lock().
std::optional<PlainPlace> plain_place(Dataset const& dataset, MatrixShape const& shape);

/// Reads a block of numbers of the stored type, row by row. Returns false, and leaves `values` in any state, if the
/// file ends before them or cannot be read, so that HDF5 says why. The file must be open; the lock need not be held.
template <class Scalar>
bool read_plain(PlainPlace const& place, MatrixShape const& shape, MatrixBlock const& block, Scalar* values);

} // namespace varve::hdf5
