#include "io/triple_text.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/checksum.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <iterator>
#include <numeric>
#include <system_error>
#include <tuple>
#include <utility>

namespace varve {
namespace {

/// The numbers of one line.
struct Triple {
  std::array<std::uint64_t, 2> index{}; ///< both from 1
  double value = 0.0;
};

/// Parses any line: nullopt for a blank line or a comment. Throws InputError that says what is wrong with a malformed
/// line.
std::optional<Triple> parse_line(std::string_view line, TripleText const& source, std::size_t number) {
  auto const words = words_of(line);
  if (words.empty() || words[0].front() == '%' || words[0].front() == '#') return std::nullopt;
  if (words.size() != 3)
    fail_at_line(source.path, number,
                 fmt::format("{} column{} in {}", words.size(), words.size() == 1 ? "" : "s", quote(line)),
                 fmt::format("3: {}, {}, {}", source.names[0], source.names[1], source.names[2]));
  auto const read = [&](std::string_view word, auto& number_read) {
    auto const end = word.data() + word.size();
    auto const [next, error] = std::from_chars(word.data(), end, number_read);
    return error == std::errc() && next == end;
  };
  Triple triple;
  for (std::size_t position = 0; position < 2; ++position) {
    auto& index = triple.index[position];
    if (!read(words[position], index) || index < 1 || index > source.largest[position])
      fail_at_line(source.path, number, fmt::format("{} {}", source.names[position], quote(words[position])),
                   fmt::format("a number from 1 to {}", source.largest[position]));
  }
  if (!read(words[2], triple.value) || !std::isfinite(triple.value))
    fail_at_line(source.path, number, fmt::format("{} {}", source.names[2], quote(words[2])), "a finite number");
  return triple;
}

/// Fast path for regular lines: three numbers separated by single tabs or blanks. All other lines go to parse_line.
class LineScanner {
public:
  LineScanner(std::string_view text, TripleText const& source)
      : cursor_(text.data()), end_(text.data() + text.size()), largest_(source.largest) {}

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

/// Memory of a block and of the part of the matrix built from it.
std::size_t bytes_of(TripleBlock const& block) {
  auto const entries = block.columns.size() * sizeof(NeuronIndex) + block.values.size() * sizeof(double);
  return block.runs.size() * sizeof(TripleBlock::Run) + 2 * entries;
}

/// Moves the leading entries of a block with rows below `row` out of the block.
TripleBlock take_rows_below(TripleBlock& block, std::uint64_t row) {
  auto const end_of_runs =
      std::ranges::find_if(block.runs, [&](TripleBlock::Run const& run) { return run.row >= row; });
  TripleBlock taken;
  std::uint64_t num_entries = 0;
  for (auto run = block.runs.begin(); run != end_of_runs; ++run) num_entries += run->num_entries;
  auto const count = static_cast<std::ptrdiff_t>(num_entries);
  bool const has_one_value = block.values.size() == 1;
  taken.runs.assign(block.runs.begin(), end_of_runs);
  taken.columns.assign(block.columns.begin(), block.columns.begin() + count);
  taken.values.assign(block.values.begin(), has_one_value ? block.values.end() : block.values.begin() + count);
  if (taken.columns.empty()) taken.values.clear();
  block.runs.erase(block.runs.begin(), end_of_runs);
  block.columns.erase(block.columns.begin(), block.columns.begin() + count);
  if (!has_one_value) block.values.erase(block.values.begin(), block.values.begin() + count);
  return taken;
}

std::uint64_t first_row(TripleText const& source) { return source.wanted ? source.wanted->first : 0; }

/// The row after the last row of the matrix, if `largest_row` is the largest row index of the text, from 1.
std::uint64_t last_row(TripleText const& source, std::uint64_t largest_row) {
  return source.wanted ? source.wanted->second : largest_row;
}

TripleBlock parse_block(TextBlock const& text, TripleText const& source) {
  TripleBlock block;
  auto const first = first_row(source);
  auto const last = last_row(source, std::numeric_limits<std::uint64_t>::max());
  auto const add = [&, position = source.row_position, drops_zeros = source.drops_zeros](Triple const& triple) {
    auto const row = triple.index[position] - 1;
    block.largest_row = std::max(block.largest_row, row + 1);
    if (row < first || row >= last || (drops_zeros && triple.value == 0.0)) return;
    block.add(static_cast<NeuronIndex>(row - first), static_cast<NeuronIndex>(triple.index[1 - position] - 1),
              triple.value);
  };
  LineScanner scanner(text.text, source);
  Triple triple;
  for (std::size_t line = text.first_line; !scanner.at_end(); ++line) {
    if (scanner.scan(triple)) {
      add(triple);
    } else if (auto const careful = parse_line(scanner.take_line(), source, line)) {
      add(*careful);
    }
  }
  return block;
}

/// Parses a text, several blocks at a time. While they are parsed, another thread reads and inflates the next ones.
class BlockParser {
public:
  /// If `expected` is given, throws InputError unless it holds the checksums of all blocks of the text.
  explicit BlockParser(TripleText source, std::optional<std::vector<std::uint64_t>> expected = std::nullopt)
      : source_(std::move(source)),
        reader_(std::make_unique<TextReader>(source_.path)),
        num_threads_(source_.is_parallel ? num_host_threads() : 1),
        expected_(std::move(expected)) {}

  /// Parses the next blocks; returns none at the end of the file.
  std::vector<TripleBlock> next() {
    auto texts = take_texts();
    auto const num_texts = texts.size();
    auto const first = sums_.size();
    sums_.resize(first + num_texts);
    if (num_texts == 0 && expected_ && first < expected_->size()) fail_changed();
    for (auto const& text : texts) num_bytes_ += text.text.size();
    std::vector<TripleBlock> blocks(num_texts);
    for_each_on_host_threads(num_texts, [&](std::size_t number) {
      auto& sum = sums_[first + number];
      sum = checksum(texts[number].text);
      if (expected_ && (first + number >= expected_->size() || (*expected_)[first + number] != sum)) fail_changed();
      blocks[number] = parse_block(texts[number], source_);
    });
    parsed_ = std::move(texts);
    return blocks;
  }

  /// Checksums of all blocks parsed so far.
  std::vector<std::uint64_t> take_sums() { return std::move(sums_); }

  /// Bytes of text parsed so far.
  std::uint64_t num_bytes() const { return num_bytes_; }

private:
  using Texts = std::vector<TextBlock>;

  /// Reads the next blocks into the memory of `texts`; none at the end of the file.
  static Texts read_texts(TextReader& reader, std::size_t most, Texts texts) {
    texts.resize(most);
    std::size_t num_texts = 0;
    while (num_texts < most && reader.next(texts[num_texts])) ++num_texts;
    texts.resize(num_texts);
    return texts;
  }

  /// The blocks to parse now. Starts to read the ones after them.
  Texts take_texts() {
    auto texts = ahead_.valid() ? ahead_.get() : read_texts(*reader_, max_texts_, std::move(parsed_));
    bool const is_whole_group = texts.size() == max_texts_;
    max_texts_ = std::min(2 * max_texts_, num_threads_);
    if (is_whole_group && num_threads_ > 1)
      ahead_ = std::async(std::launch::async, read_texts, std::ref(*reader_), max_texts_, std::move(parsed_));
    parsed_ = {};
    return texts;
  }

  [[noreturn]] void fail_changed() const {
    fail<InputError>("{} changed while it was read: its second reading gave another text than its first",
                     source_.path.string());
  }

  TripleText source_;
  std::unique_ptr<TextReader> reader_; ///< stays in its place, because another thread uses it
  std::uint64_t num_bytes_ = 0;
  std::size_t num_threads_;
  /// Number of blocks to read next; it grows, so that errors near the start are reported before many blocks are read.
  std::size_t max_texts_ = 1;
  Texts parsed_; ///< blocks whose memory can be used again
  std::vector<std::uint64_t> sums_;
  std::optional<std::vector<std::uint64_t>> expected_;
  std::future<Texts> ahead_; ///< the blocks after those that are parsed; last, so that it ends before what it uses
};

/// Counts what blocks hold, compares the number of rows and entries with the length of the text, so that a short text
/// cannot demand much memory, and finds the first row that is followed by a lower row.
class Extent {
public:
  explicit Extent(TripleText const& source) : source_(source) {}

  void look_at(TripleBlock const& block) {
    largest_row_ = std::max(largest_row_, block.largest_row);
    if (block.columns.empty()) return;
    if (num_entries_ == 0) first_value_ = block.values[0];
    if (block.values.size() != 1 || !same_bits(block.values[0], first_value_)) has_one_value_ = false;
    num_entries_ += block.columns.size();
  }

  void look_at_order(TripleBlock const& block) {
    for (auto const& run : block.runs) {
      if (run.row < last_row_ && descent_.first == descent_.second) descent_ = {last_row_, run.row};
      last_row_ = run.row;
    }
  }

  std::uint64_t largest_row() const { return largest_row_; }
  /// Of the wanted rows as samples.
  SampleFacts facts() const {
    auto const first = first_row(source_);
    return {last_row(source_, largest_row_) - first, source_.num_columns(), num_entries_, first, has_one_value_};
  }

  /// True if there are more entries than distinct (row, column) pairs so far, so that some pair occurs twice.
  bool is_overfull() const { return num_entries_ > capped_multiply(largest_row_, source_.num_columns()); }

  /// Throws InputError if the text is too short for its number of rows: rows cost memory even if they are empty.
  void require_filled(std::uint64_t num_bytes) const {
    constexpr std::uint64_t always_taken = std::uint64_t{1} << 21;
    auto const most = std::max(always_taken, num_bytes / 2);
    auto const num_rows = facts().num_samples;
    if (num_rows <= most) return;
    fail<InputError>("{}: found a text of {} bytes for {} rows ({} numbers), expected no more than {} rows",
                     source_.path.string(), num_bytes, num_rows, row_name(), most);
  }

  /// Throws InputError if a row was followed by a lower one.
  void require_ascending() const {
    if (descent_.first == descent_.second) return;
    auto const number = first_row(source_) + 1; // of the first row
    fail<InputError>(
        "{}: found {} {} after {} {}, expected ascending numbers, for the file is too large to be sorted in memory",
        source_.path.string(), row_name(), number + descent_.second, row_name(), number + descent_.first);
  }

private:
  std::string_view row_name() const { return source_.names[source_.row_position]; }

  TripleText const& source_;
  std::uint64_t largest_row_ = 0;
  std::uint64_t num_entries_ = 0;
  double first_value_ = 0.0;
  bool has_one_value_ = true; ///< all entries so far have the same value
  NeuronIndex last_row_ = 0;
  std::pair<NeuronIndex, NeuronIndex> descent_{}; ///< the row and the lower row after it; equal: there is none
};

bool share_one_value(std::vector<TripleBlock> const& blocks) {
  TripleText const any;
  Extent extent(any);
  for (auto const& block : blocks) extent.look_at(block);
  return extent.facts().has_one_value;
}

/// Sorts the entries of a row of a matrix by column.
void sort_row(SparseMatrix& matrix, std::size_t row) {
  auto const begin = matrix.row_pointers[row];
  auto const size = matrix.row_size(row);
  auto* const columns = matrix.column_indices.data() + begin;
  if (std::is_sorted(columns, columns + size)) return;
  if (matrix.is_iso()) {
    std::sort(columns, columns + size);
    return;
  }
  auto* const values = matrix.values.data() + begin;
  std::vector<std::pair<NeuronIndex, double>> entries(size);
  for (std::size_t entry = 0; entry < size; ++entry) entries[entry] = {columns[entry], values[entry]};
  std::ranges::sort(entries, {}, &std::pair<NeuronIndex, double>::first);
  for (std::size_t entry = 0; entry < size; ++entry) std::tie(columns[entry], values[entry]) = entries[entry];
}

/// Reads the file again to report the line that repeats a pair of this row, which counts from 1.
[[noreturn]] void fail_repeated(TripleText const& source, std::uint64_t row) {
  std::vector<std::uint64_t> seen;
  for_each_line(source.path, [&](std::string_view text, std::size_t line) {
    auto const triple = *parse_line(text, source, line);
    bool const is_stored = !source.drops_zeros || triple.value != 0.0;
    if (!is_stored || triple.index[source.row_position] != row) return true;
    auto const column = triple.index[1 - source.row_position];
    if (std::ranges::find(seen, column) != seen.end())
      fail_at_line(
          source.path, line,
          fmt::format("{} {}, {} {} a second time", source.names[0], triple.index[0], source.names[1], triple.index[1]),
          "each pair once");
    seen.push_back(column);
    return true;
  });
  fail_at_line(source.path, 1, "a file that changes while it is read", "one that stays as it is");
}

/// Builds the matrix of all blocks of a text, or of all that hold the wanted rows, [first, last). Throws InputError
/// with the line if a pair is given twice; the file is then read again.
SparseMatrix matrix_of_blocks(std::vector<TripleBlock> blocks, TripleText const& source, std::uint64_t first,
                              std::uint64_t last) {
  auto matrix = gather_rows(std::move(blocks), last - first, source.num_columns());
  if (auto const row = sort_rows(matrix, source.is_parallel)) fail_repeated(source, first + *row + 1);
  return matrix;
}

/// Reads the rows of a text that is too large for memory, part by part.
class TripleReader final : public SampleReader {
public:
  TripleReader(TripleText const& source, TripleScan&& scan)
      : SampleReader(scan.facts), source_(source), parser_(source, std::move(scan.sums)) {}

  SampleBatch read(std::size_t first, std::size_t last) override {
    std::vector<TripleBlock> part;
    for (bool is_complete = false; !is_complete;) {
      if (ahead_.empty()) std::ranges::move(parser_.next(), std::back_inserter(ahead_));
      if (ahead_.empty()) break;
      take_rows_below(ahead_.front(), first);
      part.push_back(take_rows_below(ahead_.front(), last));
      for (auto& run : part.back().runs) run.row -= static_cast<NeuronIndex>(first);
      is_complete = !ahead_.front().runs.empty();
      if (!is_complete) ahead_.pop_front();
    }
    auto const begin = first_sample() + first;
    return SampleSet{matrix_of_blocks(std::move(part), source_, begin, begin + last - first), begin};
  }

private:
  TripleText source_;
  BlockParser parser_;
  std::deque<TripleBlock> ahead_; ///< parsed but not yet returned
};

} // namespace

SparseMatrix gather_rows(std::vector<TripleBlock> blocks, std::size_t num_rows, std::size_t num_columns) {
  SparseMatrix matrix{num_rows, num_columns, std::vector<EdgeOffset>(num_rows + 1), {}, {}};
  for (auto const& block : blocks) {
    for (auto const& run : block.runs) matrix.row_pointers[run.row + 1] += run.num_entries;
  }
  std::partial_sum(matrix.row_pointers.begin(), matrix.row_pointers.end(), matrix.row_pointers.begin());
  auto const num_entries = matrix.row_pointers.back();
  bool const is_iso = share_one_value(blocks);
  matrix.column_indices.resize(num_entries);
  if (!is_iso) matrix.values.resize(num_entries);

  std::vector<EdgeOffset> next(matrix.row_pointers.begin(), matrix.row_pointers.end() - 1);
  for (auto& block : blocks) {
    if (is_iso && !block.columns.empty()) matrix.values = {block.values[0]};
    auto const* columns = block.columns.data();
    auto const* values = block.values.data();
    bool const has_one_value = block.values.size() == 1;
    for (auto const& run : block.runs) {
      auto const target = std::exchange(next[run.row], next[run.row] + run.num_entries);
      std::copy_n(columns, run.num_entries, matrix.column_indices.data() + target);
      columns += run.num_entries;
      if (is_iso) continue;
      if (has_one_value) {
        std::fill_n(matrix.values.data() + target, run.num_entries, block.values[0]);
      } else {
        std::copy_n(values, run.num_entries, matrix.values.data() + target);
        values += run.num_entries;
      }
    }
    block = {};
  }
  return matrix;
}

std::optional<std::size_t> sort_rows(SparseMatrix& matrix, bool parallel) {
  std::size_t const rows_per_call = parallel ? 1024 : std::max<std::size_t>(matrix.num_rows, 1);
  std::atomic<std::size_t> first_bad{matrix.num_rows};
  for_each_on_host_threads((matrix.num_rows + rows_per_call - 1) / rows_per_call, [&](std::size_t call) {
    auto const last = std::min(matrix.num_rows, (call + 1) * rows_per_call);
    for (auto row = call * rows_per_call; row < last; ++row) {
      sort_row(matrix, row);
      auto const columns = matrix.row_columns(row);
      if (std::ranges::adjacent_find(columns) == columns.end()) continue;
      for (auto best = first_bad.load(); row < best && !first_bad.compare_exchange_weak(best, row);) {
      }
    }
  });
  if (first_bad == matrix.num_rows) return std::nullopt;
  return first_bad.load();
}

TripleScan read_triples(TripleText const& source, std::optional<std::size_t> max_bytes) {
  auto const bytes = max_bytes.value_or(std::numeric_limits<std::size_t>::max());
  std::vector<TripleBlock> kept;
  std::size_t needed = 0;
  BlockParser parser(source);
  Extent extent(source);
  for (auto blocks = parser.next(); !blocks.empty() && !extent.is_overfull(); blocks = parser.next()) {
    for (auto& block : blocks) {
      extent.look_at(block);
      if (max_bytes) extent.look_at_order(block);
      needed += bytes_of(block);
      if (needed <= bytes) kept.push_back(std::move(block));
    }
    if (needed > bytes) kept = {};
  }
  extent.require_filled(parser.num_bytes());
  auto const facts = extent.facts();
  TripleScan scan{std::nullopt, extent.largest_row(), facts, parser.take_sums()};
  auto const fits = capped_add(needed, capped_multiply(facts.num_samples, 2 * sizeof(EdgeOffset))) <= bytes;
  if (fits || (extent.is_overfull() && needed <= bytes)) {
    scan.whole = matrix_of_blocks(std::move(kept), source, facts.first_sample, last_row(source, scan.largest_row));
  } else if (extent.is_overfull()) {
    fail<InputError>("{}: found more than {} entries in {} rows of {} columns, expected each pair once",
                     source.path.string(), facts.num_entries - 1, extent.largest_row(), source.num_columns());
  } else {
    extent.require_ascending();
  }
  return scan;
}

std::unique_ptr<SampleReader> open_triples(TripleText const& source, TripleScan&& scan) {
  return std::make_unique<TripleReader>(source, std::move(scan));
}

} // namespace varve
