#pragma once

#include "io/growing_values.hpp"
#include "io/hdf5.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// A sparse matrix of samples in a file that grows row by row, as a group in the CSR format of binsparse. What is
/// written, and in which pieces, depends on the rows only, not on their division into batches. Hold hdf5::lock() during
/// every use.
class GrowingMatrix {
public:
  /// Creates the group `name` of the file `path`. Throws ResourceError.
  GrowingMatrix(hid_t file, std::string const& name, std::size_t num_columns, std::filesystem::path const& path);

  std::size_t num_columns() const { return num_columns_; }
  std::size_t num_rows() const { return num_rows_; }
  SampleIndex first_sample() const { return first_sample_; } ///< number of row 0; 0 as long as nothing was appended

  /// Appends rows that are numbered directly after those before. Throws InputError if they are malformed,
  /// ResourceError if the disk is full or fails.
  void append(SampleSet const& rows);

  /// Writes the last rows and the descriptor. Call it once, after the last append().
  void finish();

private:
  void append_row(SparseMatrix const& matrix, std::size_t row);
  void write_block();

  std::filesystem::path path_;
  std::string name_;
  hdf5::Group group_;
  hdf5::GrowingList pointers_;
  hdf5::GrowingList indices_;
  GrowingValues values_;
  std::size_t num_columns_;
  std::size_t num_rows_ = 0;
  EdgeOffset num_entries_ = 0;
  SampleIndex first_sample_ = 0;
  SparseMatrix block_; ///< entries not yet written, each with its own value
  std::vector<EdgeOffset> block_ends_;
};

} // namespace varve
