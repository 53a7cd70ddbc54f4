#include "core/printable.hpp"

#include <array>
#include <cstdint>
#include <cstdio>

namespace varve {
namespace {

/// A code point and the number of bytes that encode it; for invalid UTF-8, a single byte.
struct Character {
  std::uint32_t code = 0;
  std::size_t length = 1;
  bool is_valid = false;
};

std::uint32_t byte_at(std::string_view text, std::size_t place) { return static_cast<unsigned char>(text[place]); }

/// The first character of a text, which must not be empty.
Character first_character(std::string_view text) {
  auto const begin = byte_at(text, 0);
  if (begin < 0x80) return {begin, 1, true};
  std::size_t const length = begin >= 0xf0 && begin < 0xf8   ? 4
                             : begin >= 0xe0 && begin < 0xf0 ? 3
                             : begin >= 0xc0 && begin < 0xe0 ? 2
                                                             : 0;
  if (length == 0 || text.size() < length) return {begin, 1, false};
  std::uint32_t code = begin & (0xffU >> (length + 1));
  for (std::size_t place = 1; place < length; ++place) {
    if ((byte_at(text, place) & 0xc0U) != 0x80) return {begin, 1, false};
    code = (code << 6U) | (byte_at(text, place) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  bool const is_surrogate = code >= 0xd800 && code < 0xe000;
  bool const is_valid = code >= smallest[length] && code <= 0x10ffff && !is_surrogate;
  return is_valid ? Character{code, length, true} : Character{begin, 1, false};
}

bool is_harmless(std::uint32_t code) {
  bool const is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  bool const separates_lines = code == 0x2028 || code == 0x2029;
  bool const turns_text =
      code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return !is_control && !separates_lines && !turns_text;
}

std::string escaped(Character const& character) {
  if (character.is_valid && character.code == '\n') return "\\n";
  if (character.is_valid && character.code == '\r') return "\\r";
  if (character.is_valid && character.code == '\t') return "\\t";
  std::array<char, 16> text{};
  bool const is_wide = character.is_valid && character.code >= 0x80;
  std::snprintf(text.data(), text.size(), is_wide ? "\\u{%x}" : "\\x%02x", static_cast<unsigned>(character.code));
  return text.data();
}

} // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    auto const character = first_character(text);
    if (character.is_valid && is_harmless(character.code)) {
      shown += text.substr(0, character.length);
    } else {
      shown += escaped(character);
    }
    text.remove_prefix(character.length);
  }
  return shown;
}

std::string printable(std::string_view text, std::size_t most) {
  constexpr std::string_view gap = " ... ";
  auto const whole = printable(text);
  if (whole.size() <= most || most <= gap.size()) return whole;
  auto const is_inside = [&](std::size_t place) {
    return place < whole.size() && (byte_at(whole, place) & 0xc0U) == 0x80;
  };
  std::size_t begin = (most - gap.size()) / 2;
  std::size_t end = whole.size() - (most - gap.size() - begin);
  while (begin > 0 && is_inside(begin)) --begin; // never cut within a character
  while (is_inside(end)) ++end;
  return whole.substr(0, begin) + std::string(gap) + whole.substr(end);
}

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(2 * bytes.size(), '0');
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    text[2 * place] = digits[byte_at(bytes, place) >> 4U];
    text[2 * place + 1] = digits[byte_at(bytes, place) & 15U];
  }
  return text;
}

std::string from_hexadecimal(std::string_view digits) {
  auto const value_of = [](char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; };
  if (digits.size() % 2 != 0 || digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  std::string bytes;
  for (std::size_t place = 0; place < digits.size(); place += 2)
    bytes += static_cast<char>(16 * value_of(digits[place]) + value_of(digits[place + 1]));
  return bytes;
}

} // namespace varve
