#pragma once

#include <cstdint>
#include <limits>
#include <optional>

/// Overflow-safe arithmetic for sizes that come from outside: options, files, the environment.
namespace varve {

/// one + other, or nullopt if the sum overflows 64 bits.
constexpr std::optional<std::uint64_t> checked_add(std::uint64_t one, std::uint64_t other) {
  if (one > std::numeric_limits<std::uint64_t>::max() - other) return std::nullopt;
  return one + other;
}

/// one * other, or nullopt if the product overflows 64 bits.
constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t one, std::uint64_t other) {
  if (other != 0 && one > std::numeric_limits<std::uint64_t>::max() / other) return std::nullopt;
  return one * other;
}

/// one + other and one * other, saturated at the largest 64-bit number: for comparing a size with a limit.
constexpr std::uint64_t capped_add(std::uint64_t one, std::uint64_t other) {
  return checked_add(one, other).value_or(std::numeric_limits<std::uint64_t>::max());
}
constexpr std::uint64_t capped_multiply(std::uint64_t one, std::uint64_t other) {
  return checked_multiply(one, other).value_or(std::numeric_limits<std::uint64_t>::max());
}

/// The integer part of a number, clamped to the range of 64 bits; 0 for NaN and negative numbers.
constexpr std::uint64_t capped_integer(double number) {
  constexpr double too_large = 18446744073709551616.0; // 2^64
  if (!(number > 0.0)) return 0;
  return number < too_large ? static_cast<std::uint64_t>(number) : std::numeric_limits<std::uint64_t>::max();
}

} // namespace varve
