#pragma once

#include "core/types.hpp"
#include "distribute/communicator.hpp"
#include "io/dense_file.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace varve {

/// A matrix file that rank 0 creates and makes appear, and into which all ranks write, if they can open it by its name;
/// they cannot if it lies in a folder that only the machine of rank 0 has. The constructor and
/// commit() are collective.
class SharedMatrix {
public:
  /// Creates the partial file. Throws as DenseFileWriter does.
  SharedMatrix(Communicator const& ranks, std::filesystem::path const& path, std::uint64_t num_rows,
               std::uint64_t num_columns, Precision precision);

  /// True if all ranks may write(); else rank 0 alone may.
  bool is_open_everywhere() const { return is_open_everywhere_; }

  /// Writes a block. Throws ResourceError if the disk is full or fails.
  template <class Scalar>
  void write(MatrixBlock const& block, Scalar const* values) {
    if (writer_) return writer_->write(block, values);
    blocks_->write(block, reinterpret_cast<char const*>(values));
  }

  /// Makes the file appear. `hash`: hash_of_block() summed over all that the ranks have written. Throws as
  /// DenseFileWriter::commit does.
  void commit(std::uint64_t hash);

private:
  Communicator const& ranks_;
  std::unique_ptr<DenseFileWriter> writer_; ///< of rank 0
  std::unique_ptr<DenseFileBlocks> blocks_; ///< of the other ranks
  bool is_open_everywhere_ = false;
};

} // namespace varve
