#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace varve {

/// A SHA-256 hash.
using Digest = std::array<unsigned char, 32>;

/// SHA-256 (FIPS 180-4) of bytes that come in parts, by the instructions of x86 processors that have some for it.
class Sha256 {
public:
  Sha256();
  void add(std::string_view bytes);
  /// The hash of all bytes so far; nothing may be added afterwards.
  Digest finish();

private:
  std::array<std::uint32_t, 8> state_;
  std::array<char, 64> rest_{}; ///< bytes that do not fill a block yet
  std::size_t num_rest_ = 0;
  std::uint64_t num_bytes_ = 0;
};

/// The hash of some bytes.
Digest sha256(std::string_view bytes);

/// 64 hexadecimal digits.
std::string to_hex(Digest const& digest);

} // namespace varve
