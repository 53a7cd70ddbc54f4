#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace varve {

/// Writes bytes at an offset of a file, however many calls that takes. Returns false if one fails, and errno says why.
inline bool write_at(int descriptor, std::uint64_t first, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const count = pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(first));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
    first += static_cast<std::uint64_t>(count);
  }
  return true;
}

} // namespace varve
