#include "io/triple_text.hpp"

#include "core/error.hpp"
#include "io/triple_block.hpp"
#include "network/sparse_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// Compares the number of rows and entries with the length of the text, so that a short text cannot demand much memory.
class Extent {
public:
  Extent(WantedRows const& wanted, std::size_t num_columns) : wanted_(wanted), num_columns_(num_columns) {}

  void look_at(TripleBlock const& block) {
    largest_row_ = std::max(largest_row_, block.largest_row);
    num_entries_ += block.columns.size();
  }

  std::uint64_t largest_row() const { return largest_row_; }
  std::uint64_t num_entries() const { return num_entries_; }
  std::uint64_t num_rows() const { return last_row(wanted_, largest_row_) - wanted_.first; }

  /// True if there are more entries than distinct (row, column) pairs so far, so that some pair occurs twice.
  bool is_overfull() const { return num_entries_ > capped_multiply(largest_row_, num_columns_); }

  /// Throws InputError if the text is too short for its number of rows: rows cost memory even if they are empty.
  void require_filled(fs::path const& path, TripleFormat const& format, std::uint64_t num_bytes) const {
    constexpr std::uint64_t always_taken = std::uint64_t{1} << 21;
    auto const most = std::max(always_taken, num_bytes / 2);
    if (num_rows() <= most) return;
    throw InputError(fmt::format("{}: found a text of {} bytes for {} rows ({} numbers), expected no more than {} rows",
                                 path.string(), num_bytes, num_rows(), format.names[format.row_position], most));
  }

private:
  WantedRows wanted_;
  std::size_t num_columns_;
  std::uint64_t largest_row_ = 0;
  std::uint64_t num_entries_ = 0;
};

/// Parses a whole file, but stops as soon as some pair must have occurred twice.
std::vector<TripleBlock> parse_file(fs::path const& path, TripleFormat const& format, std::size_t num_columns,
                                    WantedRows const& wanted, bool parallel) {
  BlockParser parser(path, format, wanted, parallel);
  Extent extent(wanted, num_columns);
  std::vector<TripleBlock> blocks;
  for (auto next = parser.next(); !next.empty() && !extent.is_overfull(); next = parser.next()) {
    for (auto const& block : next) extent.look_at(block);
    std::ranges::move(next, std::back_inserter(blocks));
  }
  extent.require_filled(path, format, parser.num_bytes());
  return blocks;
}

/// Finds the first row that is followed by a lower row.
class OrderCheck {
public:
  void look_at(TripleBlock const& block) {
    for (auto const& run : block.runs) {
      if (run.row < last_ && !descent_) descent_ = {last_, run.row};
      last_ = run.row;
    }
  }

  void require_ascending(fs::path const& path, TripleFormat const& format, WantedRows const& wanted) const {
    if (!descent_) return;
    auto const& name = format.names[format.row_position];
    throw InputError(fmt::format("{}: found {} {} after {} {}, expected ascending numbers, for the file is too large "
                                 "to be sorted in memory",
                                 path.string(), name, wanted.first + descent_->second + 1, name,
                                 wanted.first + descent_->first + 1));
  }

private:
  std::uint64_t last_ = 0;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> descent_; ///< the row and the lower row after it
};

} // namespace

TripleMatrix read_triples(fs::path const& path, TripleFormat const& format, std::size_t num_columns,
                          WantedRows const& wanted, bool parallel) {
  return matrix_of_blocks(parse_file(path, format, num_columns, wanted, parallel), path, format, num_columns, wanted,
                          parallel);
}

TripleScan scan_triples(fs::path const& path, TripleFormat const& format, std::size_t num_columns,
                        WantedRows const& wanted, std::size_t bytes) {
  TripleScan scan;
  OrderCheck order;
  std::vector<TripleBlock> kept;
  std::size_t needed = 0;
  std::optional<double> shared;
  scan.has_one_value = true;
  BlockParser parser(path, format, wanted, true);
  Extent extent(wanted, num_columns);
  for (auto blocks = parser.next(); !blocks.empty() && !extent.is_overfull(); blocks = parser.next()) {
    for (auto& block : blocks) {
      order.look_at(block);
      extent.look_at(block);
      needed += bytes_of(block);
      if (!block.columns.empty() && !shared) shared = block.values[0];
      if (!block.columns.empty() && (block.values.size() != 1 || !same_bits(block.values[0], *shared)))
        scan.has_one_value = false;
      if (needed <= bytes) kept.push_back(std::move(block));
    }
    if (needed > bytes) kept = {};
  }
  scan.sums = parser.take_sums();
  extent.require_filled(path, format, parser.num_bytes());
  scan.largest_row = extent.largest_row();
  scan.num_entries = extent.num_entries();
  auto const fits = capped_add(needed, capped_multiply(extent.num_rows(), 2 * sizeof(EdgeOffset))) <= bytes;
  if (fits || (extent.is_overfull() && needed <= bytes)) {
    scan.whole = matrix_of_blocks(std::move(kept), path, format, num_columns, wanted, true);
  } else if (extent.is_overfull()) {
    throw InputError(fmt::format("{}: found more than {} entries in {} rows of {} columns, expected each pair once",
                                 path.string(), extent.num_entries() - 1, extent.largest_row(), num_columns));
  } else {
    order.require_ascending(path, format, wanted);
  }
  return scan;
}

struct TripleRows::Contents {
  fs::path path;
  TripleFormat format;
  std::size_t num_columns;
  WantedRows wanted;
  BlockParser parser;
  std::deque<TripleBlock> ahead; ///< parsed but not yet returned
};

TripleRows::TripleRows(fs::path path, TripleFormat const& format, std::size_t num_columns, WantedRows const& wanted,
                       std::vector<std::uint64_t> sums)
    : contents_(new Contents{
          path, format, num_columns, wanted, BlockParser(path, format, wanted, true, std::move(sums)), {}}) {}

TripleRows::~TripleRows() = default;

SparseMatrix TripleRows::read(std::uint64_t first, std::uint64_t last) {
  auto& [path, format, num_columns, wanted, parser, ahead] = *contents_;
  std::vector<TripleBlock> part;
  for (bool is_complete = false; !is_complete;) {
    if (ahead.empty()) std::ranges::move(parser.next(), std::back_inserter(ahead));
    if (ahead.empty()) break;
    take_rows_below(ahead.front(), first);
    part.push_back(take_rows_below(ahead.front(), last));
    for (auto& run : part.back().runs) run.row -= first;
    is_complete = !ahead.front().runs.empty();
    if (!is_complete) ahead.pop_front();
  }
  auto const begin = wanted.first + first;
  return matrix_of_blocks(std::move(part), path, format, num_columns, {begin, begin + last - first}, true).matrix;
}

} // namespace varve
