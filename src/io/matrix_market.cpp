#include "io/matrix_market.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/byte_stream.hpp"
#include "io/line_error.hpp"
#include "io/matrix_parts.hpp"
#include "io/text_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "%%matrixmarket";

std::string lower(std::string_view text) {
  std::string result(text);
  for (auto& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

/// The banner: %%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric, where
/// SciPy writes unsigned-integer, too
struct Banner {
  bool is_array = false;
  bool is_pattern = false;
  bool is_symmetric = false; ///< entries below the diagonal stand for two
  double mirrored_sign = 1.0;
};

std::vector<std::string> small_words(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; (begin = line.find_first_not_of(" \t\r", begin)) != std::string_view::npos;) {
    auto const end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(lower(line.substr(begin, end - begin)));
    begin = end;
  }
  return words;
}

Banner read_banner(fs::path const& path) {
  std::array<char, 256> head{};
  std::string_view const text(head.data(), open_bytes(path)->read(head));
  auto const line = text.substr(0, text.find('\n'));
  auto const words = small_words(line);
  auto const fail = [&](char const* expected) { fail_at_line(path, 1, quote(line), expected); };
  if (words.size() != 5 || words[0] != magic || words[1] != "matrix")
    fail("%%MatrixMarket matrix, and three words more");
  Banner found;
  found.is_array = words[2] == "array";
  found.is_pattern = words[3] == "pattern";
  found.is_symmetric = words[4] != "general";
  found.mirrored_sign = words[4] == "skew-symmetric" ? -1.0 : 1.0;
  if (!found.is_array && words[2] != "coordinate") fail("the format coordinate or array");
  constexpr std::array<std::string_view, 4> kinds_of_numbers = {"real", "integer", "unsigned-integer", "double"};
  bool const has_numbers = std::ranges::find(kinds_of_numbers, words[3]) != kinds_of_numbers.end();
  if (found.is_pattern ? found.is_array : !has_numbers)
    fail("values of the kind real, integer or, with coordinate, pattern");
  if (found.is_symmetric && words[4] != "symmetric" && words[4] != "skew-symmetric")
    fail("the symmetry general, symmetric or skew-symmetric");
  return found;
}

/// Collects the entries of a file, line by line.
class Entries {
public:
  Entries(fs::path const& path, Banner const& banner) : path_(path), banner_(banner) {
    parts_.layout = MatrixParts::Layout::pairs;
    if (banner.is_pattern) parts_.values = {1.0};
  }

  void take(std::string_view line, std::size_t number) {
    rest_ = line;
    line_ = line;
    number_ = number;
    if (!has_size_) {
      take_size();
    } else if (num_lines_++ == expected_lines_) {
      fail_at_line(path_, number_, "another entry", fmt::format("{} as the line of sizes says", expected_lines_));
    } else if (banner_.is_array) {
      take_element();
    } else {
      take_entry();
    }
    if (!rest_.empty()) fail("no more on this line");
  }

  SparseMatrix finish() {
    if (!has_size_) throw InputError(path_.string() + ": found no line of sizes, expected one behind the banner");
    if (num_lines_ != expected_lines_) {
      throw InputError(fmt::format("{}: found {} entries, expected {} as the line of sizes says", path_.string(),
                                   num_lines_, expected_lines_));
    }
    if (parts_.columns.empty()) parts_.values.clear();
    return to_matrix(std::move(parts_), path_.string());
  }

private:
  [[noreturn]] void fail(std::string_view expected) { fail_at_line(path_, number_, quote(line_), expected); }

  /// Removes a number and the blanks behind it from the rest of the line.
  template <class Number>
  Number take_number(char const* expected) {
    Number number{};
    if (rest_.starts_with("+-")) fail(expected); // what follows '+' is read without it
    if (rest_.starts_with('+')) rest_.remove_prefix(1);
    auto const* const end = rest_.data() + rest_.size();
    auto const [next, error] = std::from_chars(rest_.data(), end, number);
    if (error != std::errc() || (next != end && *next != ' ' && *next != '\t')) fail(expected);
    rest_.remove_prefix(static_cast<std::size_t>(next - rest_.data()));
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    return number;
  }

  double take_value() {
    auto const value = take_number<double>("a number");
    if (!std::isfinite(value)) fail("a finite number");
    return value;
  }

  void take_size() {
    parts_.num_rows = take_number<std::uint64_t>("the number of rows");
    parts_.num_columns = take_number<std::uint64_t>("the number of columns");
    auto const& [rows, columns] = std::pair(parts_.num_rows, parts_.num_columns);
    if (banner_.is_symmetric && rows != columns) fail("as many rows as columns in a symmetric matrix");
    if (banner_.is_array) {
      bool const has_diagonal = banner_.mirrored_sign > 0.0;
      expected_lines_ = !banner_.is_symmetric ? capped_multiply(rows, columns)
                                              : capped_multiply(rows, has_diagonal ? rows + 1 : rows - 1) / 2;
      column_rows_begin();
    } else {
      expected_lines_ = take_number<std::uint64_t>("the number of entries");
    }
    require_countable(rows, columns, expected_lines_, fmt::format("{}:{}", path_.string(), number_));
    has_size_ = true;
  }

  /// Moves to the first stored element of the present column of an array.
  void column_rows_begin() { row_ = !banner_.is_symmetric ? 0 : column_ + (banner_.mirrored_sign > 0.0 ? 0 : 1); }

  void take_element() {
    auto const value = take_value();
    if (value != 0.0) add(row_, column_, value);
    if (++row_ < parts_.num_rows) return;
    ++column_;
    column_rows_begin();
  }

  void take_entry() {
    auto const row = take_number<std::uint64_t>("a row, a column and a value, separated by blanks");
    auto const column = take_number<std::uint64_t>("a row and a column, separated by blanks");
    if (row < 1 || row > parts_.num_rows) fail(fmt::format("a row from 1 to {}", parts_.num_rows));
    if (column < 1 || column > parts_.num_columns) fail(fmt::format("a column from 1 to {}", parts_.num_columns));
    if (banner_.is_symmetric && column > row) fail("an entry on or below the diagonal of a symmetric matrix");
    add(row - 1, column - 1, banner_.is_pattern ? 1.0 : take_value());
  }

  void add(std::uint64_t row, std::uint64_t column, double value) {
    push(row, column, value);
    if (banner_.is_symmetric && row != column) push(column, row, banner_.mirrored_sign * value);
  }

  void push(std::uint64_t row, std::uint64_t column, double value) {
    parts_.rows.push_back(static_cast<NeuronIndex>(row));
    parts_.columns.push_back(static_cast<NeuronIndex>(column));
    if (!banner_.is_pattern) parts_.values.push_back(value);
  }

  fs::path const& path_;
  Banner banner_;
  MatrixParts parts_;
  std::string_view line_; ///< the present line, and what of it is not yet parsed
  std::string_view rest_;
  std::size_t number_ = 0;
  bool has_size_ = false;
  std::uint64_t expected_lines_ = 0;
  std::uint64_t num_lines_ = 0;
  std::uint64_t row_ = 0; ///< the next element of an array
  std::uint64_t column_ = 0;
};

} // namespace

bool is_matrix_market(fs::path const& path) {
  std::array<char, magic.size()> head{};
  return open_bytes(path)->read(head) == head.size() && lower({head.data(), head.size()}) == magic;
}

SparseMatrix read_matrix_market(fs::path const& path) {
  Entries entries(path, read_banner(path));
  auto const take = [&](std::string_view line, std::size_t number) {
    entries.take(line, number);
    return true;
  };
  for_each_line(path, take, LastBreak::required);
  return entries.finish();
}

} // namespace varve
