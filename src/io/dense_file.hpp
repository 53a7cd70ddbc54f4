#pragma once

#include "core/types.hpp"
#include "io/container_writer.hpp"
#include "io/matrix_block.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace varve {

/// A dense matrix in a container (FORMAT.md), which is read in blocks and may be larger than memory.
class DenseFile {
public:
  /// Throws InputError, naming the file, if it is missing, broken or holds something else.
  explicit DenseFile(std::filesystem::path const& path);
  ~DenseFile();

  std::filesystem::path const& path() const { return file_->path(); }
  std::uint64_t num_rows() const { return num_rows_; }
  std::uint64_t num_columns() const { return num_columns_; }
  Precision stored() const; ///< the type of the numbers in the file

  /// Reads a block, row by row, rounded to the type of `values`. Throws InputError if the file is damaged, or a number
  /// is not finite or its type cannot hold it. Several threads may call it; all host threads read.
  void read(MatrixBlock const& block, float* values) const;
  void read(MatrixBlock const& block, double* values) const;

private:
  template <class Stored, class Scalar>
  void read_rows(MatrixBlock const& block, Scalar* values) const;

  std::unique_ptr<container::File> file_;
  container::Array const* matrix_ = nullptr;
  std::uint64_t num_rows_ = 0;
  std::uint64_t num_columns_ = 0;
};

/// Where the numbers of a matrix lie in a file that is being written.
struct DensePlace {
  container::Place place;
  std::uint64_t num_columns = 0;
  std::uint64_t element_size = 0;

  /// As bytes, for other processes of the same machine type, and back. Throws InputError if bytes are missing.
  std::string to_bytes() const;
  static DensePlace from_bytes(std::string_view bytes);
};

/// Writes blocks of a matrix to its place; several processes may do so at a time.
class DenseFileBlocks {
public:
  /// Opens the file. Throws ResourceError if it cannot be written.
  explicit DenseFileBlocks(DensePlace place);
  ~DenseFileBlocks();
  DenseFileBlocks(DenseFileBlocks const&) = delete;
  DenseFileBlocks& operator=(DenseFileBlocks const&) = delete;

  /// Writes a block, row by row in `values`. Throws ResourceError if the disk is full or fails.
  void write(MatrixBlock const& block, char const* values);
  /// Syncs the file to the disk. Throws ResourceError.
  void finish();

private:
  DensePlace place_;
  int descriptor_ = -1;
};

/// Writes a dense matrix in blocks, in any order, into a file that appears on commit(). Equal matrices give equal
/// files.
class DenseFileWriter {
public:
  /// Creates the partial file. Throws as OutputFile does.
  DenseFileWriter(std::filesystem::path const& path, std::uint64_t num_rows, std::uint64_t num_columns,
                  Precision precision);

  /// Where other processes may write.
  DensePlace const& place() const { return place_; }

  /// Writes a block of numbers of the writer's precision. Throws ResourceError if the disk is full or fails.
  void write(MatrixBlock const& block, float const* values);
  void write(MatrixBlock const& block, double const* values);

  /// Makes the file appear; numbers that were never written are 0. `hash`: hash_of_block() of all that were written, by
  /// whatever process, with which the file is compared. Throws as OutputFile::commit does.
  void commit(std::optional<std::uint64_t> hash = std::nullopt);

private:
  container::Writer file_;
  nlohmann::ordered_json description_;
  DensePlace place_;
  std::unique_ptr<DenseFileBlocks> blocks_;
};

} // namespace varve
