#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

/// Reading and writing in as many calls as it takes: the operating system may interrupt a call, or do a part of it.
namespace varve {

/// A descriptor, or -1, that is closed on destruction.
class Descriptor {
public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

private:
  int number_;
};

/// Gives bytes to write(rest), which says how many it took, until none is left. Returns false if it fails, and errno
/// says why.
template <class Write>
bool write_in_parts(std::string_view bytes, Write const& write) {
  while (!bytes.empty()) {
    auto const count = write(bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO; // a disk that takes nothing and says nothing
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// Writes bytes at the place that the descriptor has reached. Returns false if a call fails, and errno says why.
inline bool write_all(int descriptor, std::string_view bytes) {
  return write_in_parts(bytes, [&](std::string_view rest) { return ::write(descriptor, rest.data(), rest.size()); });
}

/// Writes bytes at an offset of a file. Returns false if a call fails, and errno says why.
inline bool write_at(int descriptor, std::uint64_t first, std::string_view bytes) {
  auto const end = first + bytes.size();
  return write_in_parts(bytes, [&](std::string_view rest) {
    return pwrite(descriptor, rest.data(), rest.size(), static_cast<off_t>(end - rest.size()));
  });
}

/// Reads up to `size` bytes at an offset of a file. Returns the number of bytes read, smaller only at the end of the
/// file, or -1 if a call fails, and errno says why.
inline std::int64_t read_at(int descriptor, std::uint64_t first, char* target, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    auto const count = pread(descriptor, target + done, size - done, static_cast<off_t>(first + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

} // namespace varve
