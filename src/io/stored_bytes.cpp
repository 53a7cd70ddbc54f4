#include "io/stored_bytes.hpp"

#include "core/error.hpp"
#include "io/input_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace varve {

StoredBytes::StoredBytes(std::filesystem::path path) : path_(std::move(path)), buffer_(stream_buffer_size) {
  descriptor_ = open(readable_place(path_).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(errno);
  struct stat status {};
  if (fstat(descriptor_, &status) == 0 && S_ISDIR(status.st_mode)) {
    close(descriptor_);
    throw InputError(fmt::format("{} is a folder, expected a file", path_.string()));
  }
}

StoredBytes::~StoredBytes() { close(descriptor_); }

void StoredBytes::hold(std::size_t count) {
  while (held().size() < count && !at_end_) refill();
}

std::size_t StoredBytes::read(std::span<char> out) {
  auto const from_buffer = std::min(out.size(), held().size());
  std::memcpy(out.data(), held().data(), from_buffer);
  drop(from_buffer);
  std::size_t filled = from_buffer;
  while (filled < out.size() && !at_end_) filled += read_some(out.subspan(filled));
  return filled;
}

void StoredBytes::fail(int error) {
  throw InputError(fmt::format("{} cannot be read: {}", path_.string(), std::strerror(error)));
}

void StoredBytes::refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  end_ += read_some(std::span(buffer_).subspan(end_));
}

std::size_t StoredBytes::read_some(std::span<char> out) {
  for (;;) {
    auto const count = ::read(descriptor_, out.data(), out.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    at_end_ = count == 0;
    return static_cast<std::size_t>(count);
  }
}

} // namespace varve
