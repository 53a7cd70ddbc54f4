#pragma once

#include "core/types.hpp"
#include "distribute/communicator.hpp"
#include "io/matrix_chunks.hpp"
#include "io/matrix_writer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace varve {

/// A matrix file that rank 0 creates and makes appear, and into which all ranks write, if they can open it by its name;
/// they cannot if it lies in a folder that only the machine of rank 0 has. The constructor and
/// commit() are collective.
class SharedMatrix {
public:
  /// Creates the partial file. Throws as MatrixWriter does.
  SharedMatrix(Communicator const& ranks, std::filesystem::path const& path, std::uint64_t num_rows,
               std::uint64_t num_columns, Precision precision);

  /// True if all ranks may write(); else rank 0 alone may.
  bool is_open_everywhere() const { return is_open_everywhere_; }

  /// Where the chunks lie, on ranks that may write.
  MatrixPlaces const& places() const { return writer_ ? writer_->places() : chunks_->places(); }

  /// Writes a block, which must have whole chunks if several ranks write. Throws ResourceError if the disk is full or
  /// fails.
  template <class Scalar>
  void write(MatrixBlock const& block, Scalar const* values) {
    if (writer_) return writer_->write(block, values);
    chunks_->write(block, reinterpret_cast<char const*>(values));
  }

  /// Makes the file appear. Throws as MatrixWriter::commit does.
  void commit();

private:
  Communicator const& ranks_;
  std::unique_ptr<MatrixWriter> writer_; ///< of rank 0
  std::unique_ptr<MatrixChunks> chunks_; ///< of the other ranks
  bool is_open_everywhere_ = false;
};

} // namespace varve
