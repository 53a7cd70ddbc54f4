#pragma once

#include "io/output_file.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace varve {

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
/// although its name announces compression.
std::unique_ptr<ByteSource> open_bytes(std::filesystem::path const& path);

/// Compresses bytes and writes them to a file.
class ByteSink {
public:
  virtual ~ByteSink() = default;
  virtual void write(std::string_view bytes) = 0;
  virtual void finish() = 0; ///< flushes the compressor; call it once, after the last write
};

/// Returns a sink that writes to `file`. The file must outlive the sink; its owner commits it.
std::unique_ptr<ByteSink> make_byte_sink(OutputFile& file, Compression compression);

} // namespace varve
