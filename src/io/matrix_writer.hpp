#pragma once

#include "core/types.hpp"
#include "io/matrix_block.hpp"
#include "io/matrix_chunks.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace varve {

/// Writes a dense matrix in blocks, in any order: the dataset `matrix` of a file that appears on commit(). The numbers
/// lie in chunks with checksums, so that the matrix may be larger than memory. The places of the chunks are fixed from
/// the beginning, so equal matrices give equal files, and other processes can write blocks as well (MatrixChunks).
class MatrixWriter {
public:
  /// Creates the partial file. Throws as OutputFile does.
  MatrixWriter(std::filesystem::path const& path, std::uint64_t num_rows, std::uint64_t num_columns,
               Precision precision);
  ~MatrixWriter();
  MatrixWriter(MatrixWriter const&) = delete;
  MatrixWriter& operator=(MatrixWriter const&) = delete;

  /// Rows and columns of a chunk: blocks that begin and end at its multiples are written at once.
  static constexpr std::uint64_t chunk_rows = 512;

  /// Where other processes may write.
  MatrixPlaces const& places() const;

  /// Writes a block of numbers of the writer's precision. Throws ResourceError if the disk is full or fails.
  void write(MatrixBlock const& block, float const* values);
  void write(MatrixBlock const& block, double const* values);

  /// Makes the file appear; numbers that were never written are 0. Throws as OutputFile::commit does.
  void commit();

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve
