#pragma once

#include "io/output_file.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace varve {

enum class Compression { none, gzip, xz, zstd };

/// The compression that the ending of a name asks for: .gz, .xz, .zst, else none.
Compression compression_of_name(std::filesystem::path const& path);

/// "", ".gz", ".xz" or ".zst".
char const* ending_of(Compression compression);

/// The bytes of a file, decompressed.
class ByteSource {
public:
  virtual ~ByteSource() = default;

  /// Fills the buffer and returns how many bytes it holds now: fewer than fit only at the end of the file. Throws
  /// InputError, naming the file, if it is truncated or corrupt.
  virtual std::size_t read(std::span<char> buffer) = 0;
};

/// Opens a plain, gzip, xz or zstd file, told apart by its first bytes; several compressed members in a row are read as
/// one. Throws InputError if the file is missing, a folder, unreadable or (by its ending) a truncated compressed file.
std::unique_ptr<ByteSource> open_bytes(std::filesystem::path const& path);

/// Bytes on their way into a file, compressed.
class ByteSink {
public:
  virtual ~ByteSink() = default;
  virtual void write(std::string_view bytes) = 0;
  virtual void finish() = 0; ///< writes what is still held back; call once, last
};

/// A sink that writes into `file`, which must outlive it and is committed by its owner.
std::unique_ptr<ByteSink> make_byte_sink(OutputFile& file, Compression compression);

} // namespace varve
