#pragma once

#include "io/output_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// Quotes text from a file for a message: shortened, with unprintable bytes escaped.
std::string quote(std::string_view text);

/// The words of a line, separated by blanks, tabs and carriage returns.
std::vector<std::string_view> words_of(std::string_view line);

/// Throws InputError "PLACE: found FOUND, expected EXPECTED".
[[noreturn]] void fail_at(std::string_view place, std::string_view found, std::string_view expected);

/// Throws InputError "FILE:LINE: found FOUND, expected EXPECTED".
[[noreturn]] void fail_at_line(std::filesystem::path const& path, std::size_t line, std::string_view found,
                               std::string_view expected);

namespace compression {
class Coder;
}

/// The compression formats that readers recognize and writers produce.
enum class Compression { none, gzip, xz, zstd };

/// The compression that the ending of a file name implies: .gz, .xz, .zst, else none.
Compression compression_of_name(std::filesystem::path const& path);

/// The file name ending of a compression: "", ".gz", ".xz" or ".zst".
char const* ending_of(Compression compression);

/// Reads the decompressed bytes of a file.
class ByteSource {
public:
  virtual ~ByteSource() = default;

  /// Fills the buffer and returns the number of bytes read, which is smaller than the buffer only at the end of the
  /// file. Throws InputError, naming the file, if it is truncated or corrupt.
  virtual std::size_t read(std::span<char> buffer) = 0;
};

/// Opens a plain, gzip, xz or zstd file, recognized by its first bytes. Concatenated compressed members are read as one
/// stream. Throws InputError if the file is missing, a folder or unreadable, or if it ends within its first bytes
/// although its name announces compression; ResourceError if memory lacks for the decompressor.
std::unique_ptr<ByteSource> open_bytes(std::filesystem::path const& path);

/// Writes text through a buffer, compressed as the ending of PATH implies; the file appears on commit() or not at all.
class TextWriter {
public:
  /// Throws as OutputFile does; UsageError in a build without liblzma for .xz; ResourceError if memory lacks for the
  /// compressor.
  explicit TextWriter(std::filesystem::path const& path, Appears appears = Appears::by_itself);
  ~TextWriter();

  void write(std::string_view text);
  template <class... Values>
  void print(fmt::format_string<Values const&...> line, Values const&... values) {
    fmt::format_to(std::back_inserter(text_), line, values...);
    if (text_.size() > longest_buffer) flush();
  }
  void commit();

private:
  static constexpr std::size_t longest_buffer = std::size_t{1} << 20;

  void flush();
  /// Writes the compressed form of the beginning of `text`, which it removes, or, if that is empty, of what the coder
  /// holds back; true at the end of the stream.
  bool compress(std::string_view& text);

  OutputFile file_;
  Compression compression_;
  fmt::memory_buffer text_;                   ///< to be written
  std::unique_ptr<compression::Coder> coder_; ///< null: the text is not compressed
  std::vector<char> buffer_;                  ///< for compressed bytes
};

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

/// Whether a line break must end the last line too: then a file that was cut inside its last number is noticed.
enum class LastBreak { optional, required };

/// Calls visit(line, number) for each line of a plain or compressed text file, except blank lines and comments, which
/// begin with % or #. Blanks at both ends are removed. The number counts all lines, from 1. Ends early if `visit`
/// returns false. Throws as TextReader does.
template <class Visit>
void for_each_line(std::filesystem::path const& path, Visit const& visit, LastBreak last = LastBreak::optional) {
  TextReader reader(path);
  TextBlock block;
  while (reader.next(block)) {
    std::string_view rest = block.text;
    for (std::size_t number = block.first_line; !rest.empty(); ++number) {
      auto const length = std::min(rest.find('\n'), rest.size());
      auto line = rest.substr(0, length);
      bool const has_break = length < rest.size();
      rest.remove_prefix(std::min(length + 1, rest.size()));
      line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
      line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
      if (line.empty() || line.front() == '%' || line.front() == '#') continue;
      if (!has_break && last == LastBreak::required)
        fail_at_line(path, number, fmt::format("{} at the end of the file", quote(line)),
                     "a line break behind it, without which the file may have been cut");
      if (!visit(line, number)) return;
    }
  }
}

} // namespace varve
