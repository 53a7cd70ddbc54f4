#pragma once

#include "io/triple_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

/// One line of a text of triples: its numbers are parsed here.
namespace varve {

/// The numbers of one line.
struct Triple {
  std::array<std::uint64_t, 2> index{}; ///< both from 1
  double value = 0.0;
};

/// Parses any line: nullopt for a blank line or a comment. Throws InputError that says what is wrong with a malformed
/// line.
std::optional<Triple> parse_line(std::string_view line, TripleFormat const& format, std::filesystem::path const& path,
                                 std::size_t number);

/// Fast path for regular lines: three numbers separated by single tabs or blanks. All other lines go to parse_line.
class LineScanner {
public:
  LineScanner(std::string_view text, TripleFormat const& format)
      : cursor_(text.data()), end_(text.data() + text.size()), largest_(format.largest) {}

  bool at_end() const { return cursor_ == end_; }

  /// Parses a line into `triple` and advances past it; returns false without advancing if the line is not regular.
  bool scan(Triple& triple) {
    char const* next = scan_index(cursor_, largest_[0], triple.index[0]);
    if (next == nullptr) return false;
    next = scan_index(next, largest_[1], triple.index[1]);
    if (next == nullptr) return false;
    next = scan_value(next, triple.value);
    if (next == nullptr) return false;
    if (next != end_ && *next == '\r') ++next;
    if (next != end_ && *next != '\n') return false;
    cursor_ = next == end_ ? end_ : next + 1;
    return true;
  }

  /// Advances past a line and returns it without its end.
  std::string_view take_line() {
    auto const begin = cursor_;
    auto const* found = static_cast<char const*>(std::memchr(begin, '\n', static_cast<std::size_t>(end_ - begin)));
    cursor_ = found == nullptr ? end_ : found + 1;
    return {begin, static_cast<std::size_t>((found == nullptr ? end_ : found) - begin)};
  }

private:
  static bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }
  static bool is_line_end(char letter) { return letter == '\n' || letter == '\r'; }

  /// Parses an index and the single separator after it.
  char const* scan_index(char const* begin, std::uint64_t largest, std::uint64_t& index) const {
    auto const [next, error] = std::from_chars(begin, end_, index);
    if (error != std::errc() || index < 1 || index > largest || next == end_ || !is_blank(*next)) return nullptr;
    return next + 1;
  }

  /// Parses a value up to the end of its line. Consecutive lines often repeat a value, so text equal to the last value
  /// is not parsed again.
  char const* scan_value(char const* begin, double& value) {
    auto const room = static_cast<std::size_t>(end_ - begin);
    auto const length = last_value_text_.size();
    if (length > 0 && room > length && is_line_end(begin[length]) &&
        std::memcmp(begin, last_value_text_.data(), length) == 0) {
      value = last_value_;
      return begin + length;
    }
    auto const [next, error] = std::from_chars(begin, end_, value);
    if (error != std::errc() || !std::isfinite(value)) return nullptr;
    last_value_text_ = {begin, static_cast<std::size_t>(next - begin)};
    last_value_ = value;
    return next;
  }

  char const* cursor_;
  char const* end_;
  std::array<std::uint64_t, 2> largest_;
  std::string_view last_value_text_;
  double last_value_ = 0.0;
};

} // namespace varve
