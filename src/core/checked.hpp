#pragma once

#include <cstdint>
#include <limits>
#include <optional>

/// Arithmetic for sizes that come from outside (options, files, the environment), which no plain sum or product of 64
/// bits may meet before it is known to fit.
namespace varve {

/// one + other; nothing if that needs more than 64 bits.
constexpr std::optional<std::uint64_t> checked_add(std::uint64_t one, std::uint64_t other) {
  if (one > std::numeric_limits<std::uint64_t>::max() - other) return std::nullopt;
  return one + other;
}

/// one * other; nothing if that needs more than 64 bits.
constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t one, std::uint64_t other) {
  if (other != 0 && one > std::numeric_limits<std::uint64_t>::max() / other) return std::nullopt;
  return one * other;
}

/// The same for comparisons with a limit: what needs more than 64 bits is the largest number of 64 bits.
constexpr std::uint64_t capped_add(std::uint64_t one, std::uint64_t other) {
  return checked_add(one, other).value_or(std::numeric_limits<std::uint64_t>::max());
}
constexpr std::uint64_t capped_multiply(std::uint64_t one, std::uint64_t other) {
  return checked_multiply(one, other).value_or(std::numeric_limits<std::uint64_t>::max());
}

/// The whole part of a number; the nearest number of 64 bits if it is negative, not a number or too large.
constexpr std::uint64_t capped_integer(double number) {
  constexpr double too_large = 18446744073709551616.0; // 2^64
  if (!(number > 0.0)) return 0;
  return number < too_large ? static_cast<std::uint64_t>(number) : std::numeric_limits<std::uint64_t>::max();
}

} // namespace varve
