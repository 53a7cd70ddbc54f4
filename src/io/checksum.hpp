#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace varve {

/// A 64-bit checksum of bytes, chained to the checksum of the bytes before them. It detects damage and changes; it is
/// not cryptographic. It is Varve's own, not a library's (xxHash, CRC-32C), because journals of earlier versions hold
/// its sums and go on only if these stay the same.
std::uint64_t checksum(std::string_view bytes, std::uint64_t before = 0);

/// The checksum of the bytes of a list of numbers.
template <class Element>
std::uint64_t checksum_of(std::vector<Element> const& elements, std::uint64_t before) {
  return checksum({reinterpret_cast<char const*>(elements.data()), elements.size() * sizeof(Element)}, before);
}

/// The checksum of a file's stored bytes (not decompressed), read once by all host threads. Throws InputError if the
/// file cannot be read.
std::uint64_t file_checksum(std::filesystem::path const& path);

/// The checksums of several files, chained.
std::uint64_t files_checksum(std::vector<std::filesystem::path> const& files);

} // namespace varve
