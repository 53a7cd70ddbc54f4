#include "io/matrix_parts.hpp"

#include "core/error.hpp"
#include "io/line_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace varve {
namespace {

using Layout = MatrixParts::Layout;

void require_below(std::vector<NeuronIndex> const& indices, std::uint64_t limit, char const* what,
                   std::string const& place) {
  auto const bad = std::ranges::find_if(indices, [&](NeuronIndex index) { return index >= limit; });
  if (bad == indices.end()) return;
  auto const found = *bad == std::numeric_limits<NeuronIndex>::max() ? fmt::format("a too large {}", what)
                                                                     : fmt::format("the {} {}", what, *bad);
  fail_at(place, fmt::format("{} at entry {}", found, bad - indices.begin()), fmt::format("0 to below {}", limit));
}

/// Checks pointers for `count` rows or columns, which `what` names.
void require_pointers(MatrixParts const& parts, std::uint64_t count, std::uint64_t num_entries, char const* what,
                      std::string const& place) {
  auto const& pointers = parts.pointers;
  if (pointers.size() != count + 1)
    fail_at(place, fmt::format("{} {} pointers", pointers.size(), what), fmt::format("{}", count + 1));
  if (pointers.front() != 0) fail_at(place, fmt::format("the first {} pointer {}", what, pointers.front()), "0");
  if (pointers.back() != num_entries)
    fail_at(place, fmt::format("the last {} pointer {}", what, pointers.back()),
            fmt::format("{}, the number of entries", num_entries));
  auto const bad = std::ranges::adjacent_find(pointers, std::ranges::greater());
  if (bad != pointers.end())
    fail_at(place, fmt::format("the {} pointer {} after {}", what, *(bad + 1), *bad), "ascending numbers");
}

/// Gives each entry its column, which replaces the pointers of the columns.
void write_out_columns(MatrixParts& parts) {
  parts.columns.resize(parts.rows.size());
  for (std::size_t column = 0; column < parts.num_columns; ++column) {
    std::fill(parts.columns.begin() + static_cast<std::ptrdiff_t>(parts.pointers[column]),
              parts.columns.begin() + static_cast<std::ptrdiff_t>(parts.pointers[column + 1]),
              static_cast<NeuronIndex>(column));
  }
  parts.pointers = {};
}

/// Brings entries into the order of their rows, those of a row in the order of the file.
SparseMatrix gathered(MatrixParts&& parts) {
  SparseMatrix matrix{parts.num_rows, parts.num_columns, {}, {}, {}};
  auto const num_entries = parts.rows.size();
  auto& pointers = matrix.row_pointers;
  pointers.assign(parts.num_rows + 1, 0);
  for (auto const row : parts.rows) ++pointers[row + 1];
  std::partial_sum(pointers.begin(), pointers.end(), pointers.begin());
  bool const has_one_value = parts.values.size() != num_entries;
  matrix.column_indices.resize(num_entries);
  matrix.values.resize(has_one_value ? 0 : num_entries);
  for (std::size_t number = 0; number < num_entries; ++number) {
    auto const entry = pointers[parts.rows[number]]++;
    matrix.column_indices[entry] = parts.columns[number];
    if (!has_one_value) matrix.values[entry] = parts.values[number];
  }
  if (has_one_value) matrix.values = std::move(parts.values);
  std::shift_right(pointers.begin(), pointers.end(), 1);
  pointers.front() = 0;
  return matrix;
}

void sort_row(SparseMatrix& matrix, std::size_t row, std::vector<std::pair<NeuronIndex, double>>& entries) {
  auto const begin = matrix.row_pointers[row];
  auto const size = matrix.row_size(row);
  auto* const columns = matrix.column_indices.data() + begin;
  if (std::is_sorted(columns, columns + size)) return;
  if (matrix.is_iso()) {
    std::sort(columns, columns + size);
    return;
  }
  auto* const values = matrix.values.data() + begin;
  entries.resize(size);
  for (std::size_t entry = 0; entry < size; ++entry) entries[entry] = {columns[entry], values[entry]};
  std::ranges::sort(entries, {}, &std::pair<NeuronIndex, double>::first);
  for (std::size_t entry = 0; entry < size; ++entry) std::tie(columns[entry], values[entry]) = entries[entry];
}

/// Sorts the entries of each row by column and refuses entries that are given twice.
void sort_rows(SparseMatrix& matrix, std::string const& place) {
  std::vector<std::pair<NeuronIndex, double>> entries;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    sort_row(matrix, row, entries);
    auto const columns = matrix.row_columns(row);
    auto const twice = std::ranges::adjacent_find(columns);
    if (twice == columns.end()) continue;
    fail_at(place, fmt::format("row {}, column {} (both from 0) a second time", row, *twice),
            "each entry once (SciPy: call sum_duplicates())");
  }
}

} // namespace

void require_countable(std::uint64_t num_rows, std::uint64_t num_columns, std::uint64_t num_entries,
                       std::string const& place) {
  constexpr std::uint64_t largest = std::numeric_limits<NeuronIndex>::max();
  constexpr std::uint64_t always_countable = std::uint64_t{1} << 21; // rows that need no entries
  if (num_rows > largest || num_columns > largest)
    fail_at(place, fmt::format("a matrix of {} x {}", num_rows, num_columns), fmt::format("no more than {}", largest));
  if (num_rows > always_countable && num_rows > num_entries) {
    fail_at(place, fmt::format("{} rows for {} entries", num_rows, num_entries),
            fmt::format("no more than {}, or than there are entries", always_countable));
  }
}

SparseMatrix to_matrix(MatrixParts&& parts, std::string const& place) {
  auto const num_entries = parts.layout == Layout::by_columns ? parts.rows.size() : parts.columns.size();
  require_countable(parts.num_rows, parts.num_columns, num_entries, place);
  if (parts.values.size() != num_entries && parts.values.size() != 1)
    fail_at(place, fmt::format("{} values for {} entries", parts.values.size(), num_entries), "one for each");
  if (parts.layout == Layout::pairs && parts.rows.size() != parts.columns.size())
    fail_at(place, fmt::format("{} rows and {} columns of entries", parts.rows.size(), parts.columns.size()),
            "as many");
  require_below(parts.columns, parts.num_columns, "column", place);
  require_below(parts.rows, parts.num_rows, "row", place);
  if (parts.layout == Layout::by_columns) {
    require_pointers(parts, parts.num_columns, num_entries, "column", place);
    write_out_columns(parts);
  }
  SparseMatrix matrix;
  if (parts.layout == Layout::by_rows) {
    require_pointers(parts, parts.num_rows, num_entries, "row", place);
    matrix = {parts.num_rows, parts.num_columns, std::move(parts.pointers), std::move(parts.columns),
              std::move(parts.values)};
  } else {
    matrix = gathered(std::move(parts));
  }
  sort_rows(matrix, place);
  require_valid(matrix, place.c_str());
  make_iso_if_equal(matrix);
  return matrix;
}

std::vector<NeuronIndex> to_neurons(std::vector<std::uint64_t> const& indices) {
  std::vector<NeuronIndex> neurons(indices.size());
  std::ranges::transform(indices, neurons.begin(), [](std::uint64_t index) {
    return static_cast<NeuronIndex>(std::min<std::uint64_t>(index, std::numeric_limits<NeuronIndex>::max()));
  });
  return neurons;
}

void drop_zeros(SparseMatrix& matrix) {
  if (std::ranges::find(matrix.values, 0.0) == matrix.values.end()) return;
  SparseMatrix kept{matrix.num_rows, matrix.num_columns, {0}, {}, {}};
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      if (matrix.value(entry) == 0.0) continue;
      kept.column_indices.push_back(matrix.column_indices[entry]);
      kept.values.push_back(matrix.value(entry));
    }
    kept.row_pointers.push_back(kept.num_entries());
  }
  make_iso_if_equal(kept);
  matrix = std::move(kept);
}

SparseMatrix transposed_matrix(SparseMatrix&& matrix, std::string const& place) {
  MatrixParts parts;
  parts.layout = Layout::by_columns;
  parts.num_rows = matrix.num_columns;
  parts.num_columns = matrix.num_rows;
  parts.pointers = std::move(matrix.row_pointers);
  parts.rows = std::move(matrix.column_indices);
  parts.values = std::move(matrix.values);
  return to_matrix(std::move(parts), place);
}

std::unique_ptr<SampleReader> samples_of_matrix(SparseMatrix&& matrix, std::filesystem::path const& path,
                                                OptionalSampleRange const& range) {
  drop_zeros(matrix);
  auto const rows = rows_within(path, 0, matrix.num_rows, range);
  bool const is_whole = rows.first == 0 && rows.second == matrix.num_rows;
  auto part = is_whole ? std::move(matrix) : rows_of(matrix, rows.first, rows.second);
  make_iso_if_equal(part);
  return std::make_unique<SamplesInMemory>(SampleSet{std::move(part), rows.first});
}

} // namespace varve
