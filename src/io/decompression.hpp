#pragma once

#include "io/byte_stream.hpp"
#include "io/input_files.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace varve {

/// A file's stored (compressed) bytes, buffered.
class StoredBytes {
public:
  /// Throws InputError if the file is missing, a folder or unreadable.
  explicit StoredBytes(std::filesystem::path path);

  std::filesystem::path const& path() const { return path_; }
  std::string_view held() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void drop(std::size_t count) { begin_ += count; }

  /// Reads until at least `count` bytes are held or the file ends.
  void hold(std::size_t count);

  /// Fills `out` from the buffer, then reads directly into `out`; returns the number of bytes.
  std::size_t read(std::span<char> out);

private:
  void refill();
  std::size_t read_some(std::span<char> out);

  std::filesystem::path path_;
  Descriptor file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool at_end_ = false;
};

/// Throws InputError that the file ends before its data, compressed in this format, does.
[[noreturn]] void fail_truncated(std::filesystem::path const& path, char const* format);

// The source and the sink of each compression; open_bytes and make_byte_sink choose among them. Sources throw
// ResourceError if memory lacks for the decompressor. Sinks write to `file`, which must outlive them, and throw
// ResourceError if memory lacks for the compressor.

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredBytes> stored);
/// Throws InputError, naming the file, in a build without liblzma.
std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredBytes> stored);
std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredBytes> stored);

std::unique_ptr<ByteSink> make_gzip_sink(OutputFile& file);
/// Throws UsageError in a build without liblzma.
std::unique_ptr<ByteSink> make_xz_sink(OutputFile& file);
std::unique_ptr<ByteSink> make_zstd_sink(OutputFile& file);

} // namespace varve
