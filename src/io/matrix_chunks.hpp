#pragma once

#include "io/matrix_block.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// Where the chunks of a matrix lie in an HDF5 file, each with its Fletcher-32 checksum behind its numbers.
struct MatrixPlaces {
  std::filesystem::path file;              ///< to write to
  std::filesystem::path name;              ///< for messages
  std::array<std::uint64_t, 2> sizes = {}; ///< rows and columns
  std::array<std::uint64_t, 2> chunk = {}; ///< rows and columns of a chunk; those at the edges are filled up with zeros
  std::uint64_t element_size = 0;          ///< bytes of a number
  std::vector<std::uint64_t> addresses;    ///< of the chunks, row by row

  static constexpr std::size_t checksum_bytes = 4;

  /// Bytes of the numbers of a chunk.
  std::uint64_t chunk_bytes() const { return chunk[0] * chunk[1] * element_size; }

  std::uint64_t chunks_across() const { return (sizes[1] + chunk[1] - 1) / chunk[1]; }

  /// The part of the matrix that a chunk holds.
  MatrixBlock block_of(std::uint64_t number) const;

  /// True if a block consists of whole chunks.
  bool has_whole_chunks(MatrixBlock const& block) const;

  /// As bytes, for other processes of the same machine type, and back. Throws InputError if bytes are missing.
  std::string to_bytes() const;
  static MatrixPlaces from_bytes(std::string_view bytes);
};

/// Writes blocks of a matrix to its chunks, without HDF5: all host threads fill chunks, compute their checksums and
/// write them. Several processes may write at a time if their blocks have whole chunks.
class MatrixChunks {
public:
  /// Opens the file. Throws ResourceError if it cannot be written.
  explicit MatrixChunks(MatrixPlaces places);
  ~MatrixChunks();
  MatrixChunks(MatrixChunks const&) = delete;
  MatrixChunks& operator=(MatrixChunks const&) = delete;

  MatrixPlaces const& places() const { return places_; }

  /// Writes a block, row by row in `values`, once: no number may be written twice. A chunk of which a part has been
  /// written waits in memory for the rest, as long as there are not many. Throws ResourceError if the disk is full or
  /// fails.
  void write(MatrixBlock const& block, char const* values);

  /// Writes the chunks that still wait, and syncs the file to the disk. Throws ResourceError.
  void finish();

private:
  /// A chunk of which a part has been written.
  struct Part {
    std::uint64_t num_missing = 0; ///< numbers
    std::vector<char> numbers;     ///< empty: they are in the file
  };

  void copy_into(MatrixBlock const& chunk, char* numbers, MatrixBlock const& block, char const* values) const;
  void write_part(std::uint64_t number, MatrixBlock const& block, char const* values);
  void put(std::uint64_t number, std::vector<char>& numbers) const;
  bool read_whole(std::uint64_t number, std::vector<char>& bytes) const;

  MatrixPlaces places_;
  int descriptor_ = -1;
  std::map<std::uint64_t, Part> parts_;
  std::size_t num_waiting_ = 0; ///< parts whose numbers are in memory
};

} // namespace varve
