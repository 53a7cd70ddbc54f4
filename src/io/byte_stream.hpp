#pragma once

#include "io/output_file.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace varve {

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

/// Writes text, compressed as the ending of PATH implies; the file appears on commit() or not at all.
class TextWriter {
public:
  /// Throws as OutputFile does; UsageError in a build without liblzma for .xz; ResourceError if memory lacks for the
  /// compressor.
  explicit TextWriter(std::filesystem::path const& path, Appears appears = Appears::by_itself);
  ~TextWriter();

  void write(std::string_view text);
  void commit();

private:
  /// Writes the compressed form of the beginning of `text`, which it removes, or, if that is empty, of what the coder
  /// holds back; true at the end of the stream.
  bool compress(std::string_view& text);

  OutputFile file_;
  Compression compression_;
  std::unique_ptr<compression::Coder> coder_; ///< null: the text is not compressed
  std::vector<char> buffer_;
};

} // namespace varve
