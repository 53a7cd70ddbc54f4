#pragma once

#include "core/types.hpp"
#include "io/container.hpp"
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

/// Writes a dense matrix in blocks, in any order, into a file that appears on commit(). Several processes may write
/// into one file at a time. Equal matrices give equal files.
class DenseFileWriter {
public:
  /// Creates the partial file. Throws as OutputFile does.
  DenseFileWriter(std::filesystem::path const& path, std::uint64_t num_rows, std::uint64_t num_columns,
                  Precision precision);

  /// Opens the partial file of another process, whose writer gave its place(). Throws InputError if bytes are missing,
  /// ResourceError if the file cannot be written.
  explicit DenseFileWriter(std::string_view place);

  /// Bytes that tell processes of the same machine type where to write.
  std::string place() const;

  /// Writes a block of numbers of the writer's precision, row by row in `values`. Throws ResourceError if the disk is
  /// full or fails.
  template <class Scalar>
  void write(MatrixBlock const& block, Scalar const* values) {
    write_bytes(block, reinterpret_cast<char const*>(values), sizeof(Scalar));
  }

  /// Syncs what this process wrote to the disk; nothing is written after that. Throws ResourceError.
  void finish();

  /// Finishes and makes the file appear, in the process that created it, after all others have finished; numbers that
  /// were never written are 0. `hash`: hash_of_block() of all that were written, by whatever process, with which the
  /// file is compared. Throws as OutputFile::commit does.
  void commit(std::optional<std::uint64_t> hash = std::nullopt);

private:
  void open_file();
  void write_bytes(MatrixBlock const& block, char const* values, std::size_t element_size);

  std::optional<container::Writer> file_; ///< of the process that created it
  nlohmann::ordered_json description_;
  container::Place place_;
  std::uint64_t num_columns_ = 0;
  std::uint64_t element_size_ = 0;
  Descriptor descriptor_{-1};
};

} // namespace varve
