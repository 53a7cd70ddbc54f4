#pragma once

#include <bit>
#include <cstdint>

namespace varve {

/// True if two numbers are stored as the same bits: 0 and -0 differ.
inline bool same_bits(double left, double right) {
  return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right);
}

} // namespace varve
