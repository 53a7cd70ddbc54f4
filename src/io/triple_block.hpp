#pragma once

#include "io/text_file.hpp"
#include "io/triple_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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

// Blocks of a text of triples: several are parsed at a time, each by one thread.

/// Consecutive entries of a text that belong to one row.
struct Run {
  std::uint64_t row = 0; ///< from 0, counted from the first wanted row
  std::uint64_t num_entries = 0;
};

/// The entries of one block of text, in the order of the text.
struct TripleBlock {
  std::vector<Run> runs;
  std::vector<NeuronIndex> columns;
  std::vector<double> values; ///< one per entry, or exactly one shared by all
  std::uint64_t largest_row = 0;
};

/// Memory of a block and of the part of the matrix built from it.
std::size_t bytes_of(TripleBlock const& block);

/// Moves the leading entries of a block with rows below `row` out of the block.
TripleBlock take_rows_below(TripleBlock& block, std::uint64_t row);

/// Parses a text, several blocks at a time. While they are parsed, another thread reads and inflates the next ones.
class BlockParser {
public:
  /// With `parallel`, blocks are parsed on all host threads. If `expected` is given, throws InputError unless it holds
  /// the checksums of all blocks of the text.
  BlockParser(std::filesystem::path const& path, TripleFormat const& format, WantedRows const& wanted, bool parallel,
              std::optional<std::vector<std::uint64_t>> expected = std::nullopt);

  /// Parses the next blocks; returns none at the end of the file.
  std::vector<TripleBlock> next();

  /// Checksums of all blocks parsed so far.
  std::vector<std::uint64_t> take_sums() { return std::move(sums_); }

  /// Bytes of text parsed so far.
  std::uint64_t num_bytes() const { return num_bytes_; }

private:
  [[noreturn]] void fail_changed() const;

  using Texts = std::vector<TextBlock>;

  /// Reads the next blocks into the memory of `texts`; none at the end of the file.
  static Texts read_texts(TextReader& reader, std::size_t most, Texts texts);
  /// The blocks to parse now. Starts to read the ones after them.
  Texts take_texts();

  std::filesystem::path path_;
  TripleFormat format_;
  WantedRows wanted_;
  std::unique_ptr<TextReader> reader_; ///< stays in its place, because another thread uses it
  std::uint64_t num_bytes_ = 0;
  std::size_t num_threads_;
  /// Number of blocks to read next; it grows, so that errors near the start are reported before many blocks are read.
  std::size_t most_texts_ = 1;
  Texts parsed_; ///< blocks whose memory can be used again
  std::vector<std::uint64_t> sums_;
  std::optional<std::vector<std::uint64_t>> expected_;
  std::future<Texts> ahead_; ///< the blocks after those that are parsed; last, so that it ends before what it uses
};

// Builds the wanted rows of a sparse matrix from blocks of triples.

/// The row after the last row of the matrix, if `largest_row` is the largest row index of the text, from 1.
std::uint64_t last_row(WantedRows const& wanted, std::uint64_t largest_row);

/// Builds the matrix of all blocks of a text, or of all that hold the wanted rows. With `parallel`, rows are sorted on
/// all host threads. Throws InputError with the line if a pair is given twice; the file is then read again.
TripleMatrix matrix_of_blocks(std::vector<TripleBlock> blocks, std::filesystem::path const& path,
                              TripleFormat const& format, std::size_t num_columns, WantedRows const& wanted,
                              bool parallel);

} // namespace varve
