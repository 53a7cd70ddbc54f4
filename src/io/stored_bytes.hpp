#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace varve {

/// Size of the buffers between a file and its compression, in bytes.
constexpr std::size_t stream_buffer_size = std::size_t{1} << 18;

/// A file's stored (compressed) bytes, buffered.
class StoredBytes {
public:
  /// Throws InputError if the file is missing, a folder or unreadable.
  explicit StoredBytes(std::filesystem::path path);
  ~StoredBytes();
  StoredBytes(StoredBytes const&) = delete;
  StoredBytes& operator=(StoredBytes const&) = delete;

  std::filesystem::path const& path() const { return path_; }
  std::string_view held() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void drop(std::size_t count) { begin_ += count; }

  /// Reads until at least `count` bytes are held or the file ends.
  void hold(std::size_t count);

  /// Fills `out` from the buffer, then reads directly into `out`; returns the number of bytes.
  std::size_t read(std::span<char> out);

private:
  [[noreturn]] void fail(int error);
  void refill();
  std::size_t read_some(std::span<char> out);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool at_end_ = false;
};

} // namespace varve
