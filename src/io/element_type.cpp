#include "io/element_type.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace varve {
namespace {

/// Two types of floating point that C++20 has no name for.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

double real_of(Half number) {
  constexpr int mantissa_bits = 10;
  unsigned const exponent = number.bits >> 10U & 0x1fU;
  unsigned const mantissa = number.bits & 0x3ffU;
  double magnitude = 0.0;
  if (exponent == 0x1fU) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(double(mantissa), -14 - mantissa_bits);
  } else {
    magnitude = std::ldexp(double(mantissa | 0x400U), static_cast<int>(exponent) - 15 - mantissa_bits);
  }
  return (number.bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

double real_of(Brain number) { return double(std::bit_cast<float>(std::uint32_t{number.bits} << 16U)); }

template <class Number>
requires std::is_arithmetic_v<Number>
double real_of(Number number) { return static_cast<double>(number); }

/// Calls visit(number) for each number of this type in `bytes`.
template <class Number, class Visit>
void for_each_of(std::span<char const> bytes, Visit const& visit) {
  for (std::size_t place = 0; place + sizeof(Number) <= bytes.size(); place += sizeof(Number)) {
    Number number{};
    std::memcpy(&number, bytes.data() + place, sizeof(Number));
    visit(number);
  }
}

template <class Visit>
void for_each_integer(ElementType type, std::span<char const> bytes, Visit const& visit) {
  bool const is_signed = type.kind == ElementType::Kind::signed_integer;
  switch (type.size) {
  case 1:
    return is_signed ? for_each_of<std::int8_t>(bytes, visit) : for_each_of<std::uint8_t>(bytes, visit);
  case 2:
    return is_signed ? for_each_of<std::int16_t>(bytes, visit) : for_each_of<std::uint16_t>(bytes, visit);
  case 4:
    return is_signed ? for_each_of<std::int32_t>(bytes, visit) : for_each_of<std::uint32_t>(bytes, visit);
  default:
    return is_signed ? for_each_of<std::int64_t>(bytes, visit) : for_each_of<std::uint64_t>(bytes, visit);
  }
}

} // namespace

bool element_exists(ElementType type) {
  bool const is_power = type.size == 2 || type.size == 4 || type.size == 8;
  if (type.is_integer()) return is_power || type.size == 1;
  return type.kind == ElementType::Kind::floating ? is_power : type.size == 2;
}

void append_reals(ElementType type, std::span<char const> bytes, std::vector<double>& reals) {
  VARVE_REQUIRE(element_exists(type), "numbers of an unknown type are converted");
  auto const append = [&](auto number) { reals.push_back(real_of(number)); };
  if (type.is_integer()) {
    for_each_integer(type, bytes, append);
  } else if (type.kind == ElementType::Kind::brain_floating) {
    for_each_of<Brain>(bytes, append);
  } else if (type.size == 2) {
    for_each_of<Half>(bytes, append);
  } else if (type.size == 4) {
    for_each_of<float>(bytes, append);
  } else {
    for_each_of<double>(bytes, append);
  }
}

void append_indices(ElementType type, std::span<char const> bytes, std::uint64_t first, std::string const& place,
                    std::vector<std::uint64_t>& indices) {
  VARVE_REQUIRE(type.is_integer() && element_exists(type), "indices are integers");
  auto position = first;
  for_each_integer(type, bytes, [&](auto number) {
    if constexpr (std::is_signed_v<decltype(number)>) {
      if (number < 0) {
        throw InputError(fmt::format("{}: found {} at position {}, expected no negative number", place,
                                     std::int64_t{number}, position));
      }
    }
    ++position;
    indices.push_back(static_cast<std::uint64_t>(number));
  });
}

} // namespace varve
