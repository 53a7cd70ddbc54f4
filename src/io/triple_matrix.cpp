#include "io/triple_matrix.hpp"

#include "core/host_threads.hpp"
#include "io/line_error.hpp"
#include "io/same_bits.hpp"
#include "io/triple_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

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
