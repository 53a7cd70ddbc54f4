#pragma once

#include "io/byte_stream.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace varve {

/// A block of whole lines of a text file.
struct TextBlock {
  std::string text;           ///< ends with a line end or at the end of the file
  std::size_t first_line = 1; ///< number of the first line of the block within the file, from 1
};

/// Reads a plain or compressed (gzip, xz, zstd) text file block by block. Memory use is bounded by the block size.
class TextReader {
public:
  static constexpr std::size_t default_block_size = std::size_t{1} << 22;

  /// `block_size` is in bytes and also limits the length of a line. Throws InputError, naming the file, if it is
  /// missing, a folder or unreadable.
  explicit TextReader(std::filesystem::path path, std::size_t block_size = default_block_size);

  /// Reads the next lines into `block`; false if there are none left. Throws InputError, naming the file, if it is
  /// truncated, corrupt, or has a line longer than a block.
  bool next(TextBlock& block);

private:
  std::filesystem::path path_;
  std::size_t block_size_;
  std::unique_ptr<ByteSource> source_;
  std::string rest_;          ///< the incomplete line after the last block
  std::size_t next_line_ = 1; ///< number of the line at the start of `rest_`
  bool at_end_ = false;
};

/// The whole decompressed text of a file. Throws as TextReader does.
std::string read_text(std::filesystem::path const& path);

/// Writes text, compressed as the ending of PATH implies; the file appears on commit() or not at all.
class TextWriter {
public:
  /// Throws as OutputFile does.
  explicit TextWriter(std::filesystem::path const& path, Appears appears = Appears::by_itself);

  void write(std::string_view text);
  void commit();

private:
  OutputFile file_;
  std::unique_ptr<ByteSink> sink_;
};

} // namespace varve
