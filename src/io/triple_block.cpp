#include "io/triple_block.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/checksum.hpp"
#include "io/text_file.hpp"
#include "network/sparse_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// The words of a line, separated by blanks, tabs and carriage returns.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (auto begin = line.find_first_not_of(" \t\r"); begin != std::string_view::npos;) {
    auto const end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(" \t\r", end);
  }
  return words;
}

} // namespace

std::optional<Triple> parse_line(std::string_view line, TripleFormat const& format, std::filesystem::path const& path,
                                 std::size_t number) {
  auto const words = words_of(line);
  if (words.empty() || words[0].front() == '%' || words[0].front() == '#') return std::nullopt;
  if (words.size() != 3) {
    fail_at_line(path, number,
                 fmt::format("{} column{} in {}", words.size(), words.size() == 1 ? "" : "s", quote(line)),
                 fmt::format("3: {}, {}, {}", format.names[0], format.names[1], format.names[2]));
  }
  auto const read = [&](std::string_view word, auto& number_read) {
    auto const end = word.data() + word.size();
    auto const [next, error] = std::from_chars(word.data(), end, number_read);
    return error == std::errc() && next == end;
  };
  Triple triple;
  for (std::size_t position = 0; position < 2; ++position) {
    auto& index = triple.index[position];
    if (!read(words[position], index) || index < 1 || index > format.largest[position]) {
      fail_at_line(path, number, fmt::format("{} {}", format.names[position], quote(words[position])),
                   fmt::format("a number from 1 to {}", format.largest[position]));
    }
  }
  if (!read(words[2], triple.value) || !std::isfinite(triple.value)) {
    fail_at_line(path, number, fmt::format("{} {}", format.names[2], quote(words[2])), "a finite number");
  }
  return triple;
}

namespace {

namespace fs = std::filesystem;

/// Collects triples as runs of rows; stores a single value as long as all are equal.
class BlockBuilder {
public:
  BlockBuilder(TripleFormat const& format, WantedRows const& wanted)
      : row_position_(format.row_position),
        drops_zeros_(format.drops_zeros),
        first_row_(wanted.first),
        last_row_(wanted.last.value_or(std::numeric_limits<std::uint64_t>::max())) {}

  void add(Triple const& triple) {
    auto const row = triple.index[row_position_] - 1;
    block_.largest_row = std::max(block_.largest_row, row + 1);
    if (row < first_row_ || row >= last_row_ || (drops_zeros_ && triple.value == 0.0)) return;
    if (block_.runs.empty() || block_.runs.back().row != row - first_row_) block_.runs.push_back({row - first_row_, 0});
    ++block_.runs.back().num_entries;
    add_value(triple.value);
    block_.columns.push_back(static_cast<NeuronIndex>(triple.index[1 - row_position_] - 1));
  }

  TripleBlock take() { return std::move(block_); }

private:
  /// Call before the column of the same entry is stored.
  void add_value(double value) {
    if (all_equal_) {
      if (block_.columns.empty()) block_.values = {value};
      if (same_bits(block_.values[0], value)) return;
      all_equal_ = false;
      block_.values.assign(block_.columns.size(), double(block_.values[0]));
    }
    block_.values.push_back(value);
  }

  TripleBlock block_;
  std::size_t row_position_;
  bool drops_zeros_;
  std::uint64_t first_row_;
  std::uint64_t last_row_;
  bool all_equal_ = true;
};

TripleBlock parse_block(TextBlock const& text, TripleFormat const& format, WantedRows const& wanted,
                        fs::path const& path) {
  BlockBuilder builder(format, wanted);
  LineScanner scanner(text.text, format);
  Triple triple;
  for (std::size_t line = text.first_line; !scanner.at_end(); ++line) {
    if (scanner.scan(triple)) {
      builder.add(triple);
    } else if (auto const careful = parse_line(scanner.take_line(), format, path, line)) {
      builder.add(*careful);
    }
  }
  return builder.take();
}

} // namespace

std::size_t bytes_of(TripleBlock const& block) {
  auto const entries = block.columns.size() * sizeof(NeuronIndex) + block.values.size() * sizeof(double);
  return block.runs.size() * sizeof(Run) + 2 * entries;
}

TripleBlock take_rows_below(TripleBlock& block, std::uint64_t row) {
  auto const end_of_runs = std::ranges::find_if(block.runs, [&](Run const& run) { return run.row >= row; });
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

BlockParser::BlockParser(fs::path const& path, TripleFormat const& format, WantedRows const& wanted, bool parallel,
                         std::optional<std::vector<std::uint64_t>> expected)
    : path_(path),
      format_(format),
      wanted_(wanted),
      reader_(std::make_unique<TextReader>(path_)),
      num_threads_(parallel ? num_host_threads() : 1),
      expected_(std::move(expected)) {}

BlockParser::Texts BlockParser::read_texts(TextReader& reader, std::size_t most, Texts texts) {
  texts.resize(most);
  std::size_t num_texts = 0;
  while (num_texts < most && reader.next(texts[num_texts])) ++num_texts;
  texts.resize(num_texts);
  return texts;
}

BlockParser::Texts BlockParser::take_texts() {
  auto texts = ahead_.valid() ? ahead_.get() : read_texts(*reader_, most_texts_, std::move(parsed_));
  bool const is_whole_group = texts.size() == most_texts_;
  most_texts_ = std::min(2 * most_texts_, num_threads_);
  if (is_whole_group && num_threads_ > 1)
    ahead_ = std::async(std::launch::async, read_texts, std::ref(*reader_), most_texts_, std::move(parsed_));
  parsed_ = {};
  return texts;
}

/// Parses the next blocks; returns none at the end of the file.
std::vector<TripleBlock> BlockParser::next() {
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
    blocks[number] = parse_block(texts[number], format_, wanted_, path_);
  });
  parsed_ = std::move(texts);
  return blocks;
}

void BlockParser::fail_changed() const {
  throw InputError(
      fmt::format("{} changed while it was read: its second reading gave another text than its first", path_.string()));
}

namespace {

bool share_one_value(std::vector<TripleBlock> const& blocks) {
  TripleBlock const* first = nullptr;
  for (auto const& block : blocks) {
    if (block.columns.empty()) continue;
    if (first == nullptr) first = &block;
    if (block.values.size() != 1 || !same_bits(block.values[0], first->values[0])) return false;
  }
  return true;
}

/// Builds a matrix from the entries of all blocks, in the order of the text; frees each block once it is copied.
SparseMatrix gather_rows(std::vector<TripleBlock> blocks, std::size_t num_rows, std::size_t num_columns) {
  SparseMatrix matrix;
  matrix.num_rows = num_rows;
  matrix.num_columns = num_columns;
  matrix.row_pointers.assign(num_rows + 1, 0);
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

/// Sorts the entries of a row by column.
void sort_row(SparseMatrix& matrix, std::size_t row) {
  auto const begin = matrix.row_pointers[row];
  auto const size = matrix.row_size(row);
  auto* const columns = matrix.column_indices.data() + begin;
  if (std::is_sorted(columns, columns + size)) return;
  if (matrix.values.size() == 1) {
    std::sort(columns, columns + size);
    return;
  }
  auto* const values = matrix.values.data() + begin;
  std::vector<std::pair<NeuronIndex, double>> entries(size);
  for (std::size_t entry = 0; entry < size; ++entry) entries[entry] = {columns[entry], values[entry]};
  std::ranges::sort(entries, {}, &std::pair<NeuronIndex, double>::first);
  for (std::size_t entry = 0; entry < size; ++entry) std::tie(columns[entry], values[entry]) = entries[entry];
}

/// Sorts all rows; returns the first row that contains a column twice.
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

/// Reads the file again to report the line that repeats a pair of this row.
[[noreturn]] void fail_repeated(fs::path const& path, TripleFormat const& format, WantedRows const& wanted,
                                std::uint64_t row) {
  TextReader reader(path);
  TextBlock text;
  std::vector<std::uint64_t> seen;
  while (reader.next(text)) {
    LineScanner scanner(text.text, format);
    for (std::size_t line = text.first_line; !scanner.at_end(); ++line) {
      auto const triple = parse_line(scanner.take_line(), format, path, line);
      if (!triple || triple->index[format.row_position] != wanted.first + row + 1) continue;
      if (format.drops_zeros && triple->value == 0.0) continue;
      auto const column = triple->index[1 - format.row_position];
      if (std::ranges::find(seen, column) != seen.end()) {
        fail_at_line(path, line,
                     fmt::format("{} {}, {} {} a second time", format.names[0], triple->index[0], format.names[1],
                                 triple->index[1]),
                     "each pair once");
      }
      seen.push_back(column);
    }
  }
  fail_at_line(path, 1, "a file that changes while it is read", "one that stays as it is");
}

} // namespace

std::uint64_t last_row(WantedRows const& wanted, std::uint64_t largest_row) {
  return wanted.last.value_or(std::max(largest_row, wanted.first));
}

TripleMatrix matrix_of_blocks(std::vector<TripleBlock> blocks, fs::path const& path, TripleFormat const& format,
                              std::size_t num_columns, WantedRows const& wanted, bool parallel) {
  TripleMatrix result;
  for (auto const& block : blocks) result.largest_row = std::max(result.largest_row, block.largest_row);
  auto const num_rows = last_row(wanted, result.largest_row) - wanted.first;
  result.matrix = gather_rows(std::move(blocks), num_rows, num_columns);
  if (auto const row = sort_rows(result.matrix, parallel)) fail_repeated(path, format, wanted, *row);
  return result;
}

} // namespace varve
