#pragma once

#include "core/types.hpp"
#include "io/matrix_block.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace varve {

/// Where a dense matrix lies: a file, and a dataset or group in it; an empty name means the only matrix of the file.
struct MatrixName {
  std::filesystem::path path;
  std::string dataset;
};

/// FILE or FILE:DATASET. A file whose own name contains the colon is found first.
MatrixName parse_matrix_name(std::string const& name);

/// A dense matrix in an HDF5 file, which is read in blocks: a dataset of two dimensions of 32-bit or 64-bit floating
/// point, chunked or contiguous, or a group in the layout DMATR of binsparse (FORMAT.md). FILE alone means the matrix
/// of the root group, else its dataset `matrix`, else its only dataset of two dimensions.
class MatrixDataset {
public:
  /// Opens the matrix FILE or FILE:DATASET. Throws InputError if the file is broken, has no such matrix or several, or
  /// if the matrix is empty.
  explicit MatrixDataset(std::string const& name);
  ~MatrixDataset();
  MatrixDataset(MatrixDataset const&) = delete;
  MatrixDataset& operator=(MatrixDataset const&) = delete;

  std::uint64_t num_rows() const { return num_rows_; }
  std::uint64_t num_columns() const { return num_columns_; }
  Precision stored() const { return stored_; }
  std::filesystem::path const& path() const { return path_; }
  std::string const& place() const { return place_; } ///< file and dataset, for messages

  /// The path, in the file, of the dataset that holds the numbers: /matrix.
  std::string const& stored_at() const { return stored_at_; }

  /// Reads a block, rounded to the type of `values`. Throws InputError if a number is not finite or its type cannot
  /// hold it. Several threads may call it; all host threads decode chunks, or read numbers that lie in the file as in
  /// memory.
  void read(MatrixBlock const& block, float* values) const;
  void read(MatrixBlock const& block, double* values) const;

private:
  struct Contents;

  template <class Stored>
  void read_stored(MatrixBlock const& block, Stored* values) const;
  template <class Scalar>
  void read_rounded(MatrixBlock const& block, Scalar* values) const;

  std::filesystem::path path_;
  std::string place_;
  std::string stored_at_;
  std::uint64_t num_rows_ = 0;
  std::uint64_t num_columns_ = 0;
  Precision stored_ = Precision::single_precision;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve
