#pragma once

#include "io/growing_values.hpp"
#include "io/hdf5.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
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

  /// What was appended so far, however it was divided.
  struct Rows {
    std::uint64_t num_rows = 0;
    EdgeOffset num_entries = 0;
    SampleIndex first_sample = 0; ///< number of row 0; 0 as long as nothing was appended
    std::uint64_t hash = 0;       ///< of the entries that are not 0: varve::hash()

    bool operator==(Rows const&) const = default;
  };
  Rows const& rows() const { return rows_; }

  /// Appends rows that are numbered directly after those before. Throws InputError if they are malformed,
  /// ResourceError if the disk is full or fails.
  void append(SampleSet const& rows);

  /// Writes the last rows and the descriptor. Call it once, after the last append().
  void finish();

  /// Closes the group after finish(), so that the file can be closed.
  void close() { group_ = {}; }

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
  Rows rows_;
  SparseMatrix block_; ///< entries not yet written, each with its own value
  std::vector<EdgeOffset> block_ends_;
};

} // namespace varve
