#pragma once

#include "io/hdf5.hpp"
#include "io/hdf5_stored_chunks.hpp"
#include "io/matrix_block.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

/// Dense matrices in HDF5 files, of Varve and of other programs. Hold hdf5::lock() during every call; call open_matrix
/// under hdf5::guarded.
namespace varve::hdf5 {

struct MatrixShape {
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  std::size_t element_size = 0; ///< bytes per number: 4 or 8
  bool is_list = false;         ///< true if the rows lie one after the other in a dataset of one dimension (DMATR)
};

/// Opens the dataset or group `name` (may be a path within the file; empty: the matrix of the file) and reads its
/// shape and all its metadata. Throws InputError "PLACE: ..." unless it is a matrix with rows and columns.
Dataset open_matrix(File const& file, std::string const& name, std::string const& place, MatrixShape& shape);

/// Opens a dataset as open_dataset does, but with chunks of `num_dimensions` dimensions, of which it keeps those that a
/// block may share with the next.
Dataset open_chunked(hid_t parent, std::string const& name, int num_dimensions, std::string const& place);

/// Reads a block of numbers. `chunks` are those of the dataset. The type must have the size of the stored one. Throws
/// InputError "PLACE: ...".
void read_block(Dataset const& dataset, StoredChunks& chunks, MatrixShape const& shape, MatrixBlock const& block,
                float* values, std::string const& place);
void read_block(Dataset const& dataset, StoredChunks& chunks, MatrixShape const& shape, MatrixBlock const& block,
                double* values, std::string const& place);

} // namespace varve::hdf5
