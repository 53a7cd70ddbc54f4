#pragma once

#include "core/printable.hpp"
#include "core/sha256_block.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// A SHA-256 hash.
using Digest = std::array<unsigned char, 32>;

/// SHA-256 (FIPS 180-4) of bytes that come in parts, by the instructions of x86 processors that have some for it.
class Sha256 {
public:
  void add(std::string_view bytes);
  /// The hash of all bytes so far; nothing may be added afterwards.
  Digest finish();

private:
  Sha256State state_;
  std::array<char, 64> rest_{}; ///< bytes that do not fill a block yet
  std::size_t num_rest_ = 0;
  std::uint64_t num_bytes_ = 0;
};

/// The hash of some bytes.
Digest sha256(std::string_view bytes);

/// Two hexadecimal digits for each byte: 64 for a digest.
inline std::string to_hex(std::span<unsigned char const> bytes) {
  return hexadecimal({reinterpret_cast<char const*>(bytes.data()), bytes.size()});
}

/// A 64-bit checksum of bytes, chained to the checksum of the bytes before them. It detects damage and changes; it is
/// not cryptographic. It is Varve's own, not a library's (xxHash, CRC-32C), because journals of earlier versions hold
/// its sums and go on only if these stay the same.
std::uint64_t checksum(std::string_view bytes, std::uint64_t before = 0);

/// The checksum of a file's stored bytes (not decompressed), read once by all host threads. Throws InputError if the
/// file cannot be read.
std::uint64_t file_checksum(std::filesystem::path const& path);

/// The checksums of several files, chained.
std::uint64_t files_checksum(std::vector<std::filesystem::path> const& files);

} // namespace varve
