#pragma once

#include "core/types.hpp"

#include <varve/error.hpp>

#if !defined(__NVCC__) // which does not know the {fmt} of Debian 12, and compiles nothing that calls fail()
#include <fmt/format.h>
#endif

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace varve {

// The errors of the public headers: users of the library catch what its parts throw.
using v0_3::Error;
using v0_3::ErrorKind;
using v0_3::InputError;
using v0_3::ResourceError;
using v0_3::UsageError;

} // namespace varve

/// Checks a contract between parts of Varve: throws std::logic_error, because a violation is a bug of the caller, not
/// bad input.
#define VARVE_REQUIRE(condition, sentence)                                                                             \
  do {                                                                                                                 \
    if (!(condition)) throw std::logic_error(std::string("varve: ") + (sentence) + " [" #condition "]");               \
  } while (false)

namespace varve {

// Overflow-safe arithmetic for untrusted sizes (options, files, the environment), and checked narrowing.

/// one * other, or nullopt if the product overflows 64 bits.
constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t one, std::uint64_t other) {
  if (other != 0 && one > std::numeric_limits<std::uint64_t>::max() / other) return std::nullopt;
  return one * other;
}

/// one + other and one * other, saturated at the largest 64-bit number: for comparing a size with a limit.
constexpr std::uint64_t capped_add(std::uint64_t one, std::uint64_t other) {
  return one + std::min(other, std::numeric_limits<std::uint64_t>::max() - one);
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

/// The number in a narrower type. Throws InputError in every build if it is out of range, because kernels would then
/// silently read another element. `what`: what the number is, for the message. `most`: lowered by tests, which have no
/// memory for such numbers.
template <std::integral Narrow>
Narrow narrowed(std::uint64_t number, char const* what,
                std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<Narrow>::max())) {
  if (number > most)
    throw InputError(std::string(what) + ": found " + std::to_string(number) + ", expected at most " +
                     std::to_string(most));
  return static_cast<Narrow>(number);
}

/// Converts an exception to an Error: an Error is returned as it is; other exceptions become a ResourceError, which
/// names the lack of memory or threads if that is the cause.
Error error_of(std::exception const& failure);

#if !defined(__NVCC__)
/// Throws an error whose sentence is formatted as by fmt::format.
template <class Kind, class... Values>
[[noreturn]] void fail(fmt::format_string<Values...> sentence, Values&&... values) {
  throw Kind(fmt::format(sentence, std::forward<Values>(values)...));
}
#endif

} // namespace varve
