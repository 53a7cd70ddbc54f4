#include "network/sparse_matrix.hpp"

#include "core/buffer_pool.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace varve {

void make_iso_if_equal(SparseMatrix& matrix) {
  if (matrix.values.size() < 2) return;
  std::vector<double> shared(1, matrix.values.front());
  if (std::ranges::all_of(matrix.values, [&](double value) { return same_bits(value, shared[0]); }))
    BufferPool<double>::of_process().recycle(std::exchange(matrix.values, std::move(shared)));
}

void drop_zeros(SparseMatrix& matrix) {
  auto const zeros = std::ranges::count(matrix.values, 0.0);
  if (zeros > 0) {
    bool const has_one = matrix.values.size() == 1;
    EdgeOffset kept = 0;
    EdgeOffset entry = 0;
    for (std::size_t row = 0; row < matrix.num_rows; ++row) {
      for (EdgeOffset const end = matrix.row_pointers[row + 1]; entry < end; ++entry) {
        if (has_one || matrix.values[entry] == 0.0) continue;
        matrix.column_indices[kept] = matrix.column_indices[entry];
        matrix.values[kept++] = matrix.values[entry];
      }
      matrix.row_pointers[row + 1] = kept;
    }
    matrix.column_indices.resize(kept);
    matrix.values.resize(kept);
  }
  make_iso_if_equal(matrix);
}

namespace {

bool is_finite(double value, Precision precision) {
  return std::isfinite(precision == Precision::single_precision ? double{static_cast<float>(value)} : value);
}

/// The nonzero values of a row. Calls fail(column) for the first one that is not finite in this precision.
template <class Scalar, class Fail>
std::size_t count_nonzeros(std::span<Scalar const> row, Precision precision, Fail const& fail) {
  std::uint32_t count = 0;
  std::uint32_t num_finite = 0;
  auto const count_all = [&](auto is_finite_too) { // without a branch, so that compilers vectorise the loop
    for (Scalar const value : row) {
      count += value != Scalar{0} ? 1U : 0U;
      num_finite += is_finite_too(value) ? 1U : 0U;
    }
  };
  if (precision == Precision::single_precision) {
    count_all([](Scalar value) { return std::abs(static_cast<float>(value)) <= std::numeric_limits<float>::max(); });
  } else {
    count_all([](Scalar value) { return std::abs(value) <= std::numeric_limits<Scalar>::max(); });
  }
  for (std::size_t column = 0; num_finite < row.size() && column < row.size(); ++column)
    if (!is_finite(static_cast<double>(row[column]), precision)) fail(column);
  return count;
}

} // namespace

template <class Scalar>
SparseMatrix compressed(std::span<Scalar const> values, std::size_t num_rows, std::size_t num_columns,
                        Precision precision, std::function<void(std::size_t, std::size_t)> const& fail) {
  constexpr std::size_t values_at_a_time = std::size_t{1} << 16U; // of one thread
  auto const rows_at_a_time = std::max<std::size_t>(1, values_at_a_time / std::max<std::size_t>(1, num_columns));
  auto const for_each_row = [&](auto const& work) {
    for_each_on_host_threads((num_rows + rows_at_a_time - 1) / rows_at_a_time, [&](std::size_t block) {
      auto const last = std::min(num_rows, (block + 1) * rows_at_a_time);
      for (auto row = block * rows_at_a_time; row < last; ++row)
        work(row, values.subspan(row * num_columns, num_columns));
    });
  };
  SparseMatrix matrix{num_rows, num_columns, std::vector<EdgeOffset>(num_rows + 1), {}, {}};
  for_each_row([&](std::size_t row, std::span<Scalar const> numbers) {
    matrix.row_pointers[row + 1] = count_nonzeros(numbers, precision, [&](std::size_t column) { fail(row, column); });
  });
  std::partial_sum(matrix.row_pointers.begin(), matrix.row_pointers.end(), matrix.row_pointers.begin());
  matrix.column_indices.resize(matrix.row_pointers.back());
  matrix.values.resize(matrix.row_pointers.back());
  for_each_row([&](std::size_t row, std::span<Scalar const> numbers) {
    auto next = matrix.row_pointers[row];
    auto const end = matrix.row_pointers[row + 1];
    // Each value is stored and nonzeros stay, so that scattered zeros cost no branch.
    for (std::size_t column = 0; next < end && column < num_columns; ++column) {
      matrix.column_indices[next] = static_cast<NeuronIndex>(column);
      matrix.values[next] = static_cast<double>(numbers[column]);
      next += numbers[column] != Scalar{0} ? 1U : 0U;
    }
  });
  make_iso_if_equal(matrix);
  return matrix;
}
template SparseMatrix compressed(std::span<float const>, std::size_t, std::size_t, Precision,
                                 std::function<void(std::size_t, std::size_t)> const&);
template SparseMatrix compressed(std::span<double const>, std::size_t, std::size_t, Precision,
                                 std::function<void(std::size_t, std::size_t)> const&);

SparseMatrix rows_of(SparseMatrix const& matrix, std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= matrix.num_rows, "row range lies outside the matrix");
  auto const begin = static_cast<std::ptrdiff_t>(matrix.row_pointers[first]);
  auto const end = static_cast<std::ptrdiff_t>(matrix.row_pointers[last]);
  auto const* const pointers = matrix.row_pointers.data();
  SparseMatrix part{last - first, matrix.num_columns, {pointers + first, pointers + last + 1}, {}, {}};
  for (auto& pointer : part.row_pointers) pointer -= matrix.row_pointers[first];
  part.column_indices.assign(matrix.column_indices.begin() + begin, matrix.column_indices.begin() + end);
  bool const has_one_value = matrix.values.size() == 1;
  part.values.assign(matrix.values.begin() + (has_one_value ? 0 : begin),
                     has_one_value ? matrix.values.end() : matrix.values.begin() + end);
  return part;
}

void require_valid(SparseMatrix const& matrix, char const* what) {
  auto const entries = matrix.num_entries();
  auto const& pointers = matrix.row_pointers;
  // comparing without num_rows + 1, which may overflow to 0
  bool const has_all = !pointers.empty() && pointers.size() - 1 == matrix.num_rows;
  if (!has_all || pointers.front() != 0 || pointers.back() != entries)
    fail<InputError>("{}: the row pointers must be one more than the {} rows, from 0 to the number of entries, {}",
                     what, matrix.num_rows, entries);
  if (matrix.values.size() != entries && !(matrix.values.size() == 1))
    fail<InputError>("{}: {} values for {} entries (expected one each, or one for all)", what, matrix.values.size(),
                     entries);
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    if (pointers[row] > pointers[row + 1] || pointers[row + 1] > entries)
      fail<InputError>("{}: the row pointer after row {} is {}, expected {} to {}", what, row, pointers[row + 1],
                       pointers[row], entries);
  }
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = pointers[row]; entry < pointers[row + 1]; ++entry) {
      auto const column = matrix.column_indices[entry];
      if (column >= matrix.num_columns)
        fail<InputError>("{}: row {} has column index {}, expected 0 to {}", what, row, column,
                         static_cast<long long>(matrix.num_columns) - 1);
      if (entry > pointers[row] && column <= matrix.column_indices[entry - 1]) {
        fail<InputError>("{}: row {} has column index {} after {}; indices must ascend and be distinct", what, row,
                         column, matrix.column_indices[entry - 1]);
      }
    }
  }
  auto const bad = std::ranges::find_if(matrix.values, [](double value) { return !std::isfinite(value); });
  if (bad != matrix.values.end())
    fail<InputError>("{}: entry {} has the value {}, expected a finite number", what, bad - matrix.values.begin(),
                     *bad);
}

TransposedEdges transposed(SparseMatrix const& matrix) {
  TransposedEdges by_input;
  by_input.row_pointers.assign(matrix.num_columns + 1, 0);
  for (auto const column : matrix.column_indices) ++by_input.row_pointers[column + 1];
  std::partial_sum(by_input.row_pointers.begin(), by_input.row_pointers.end(), by_input.row_pointers.begin());
  by_input.outputs.resize(matrix.num_entries());
  by_input.edges.resize(matrix.num_entries());
  auto next = by_input.row_pointers;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset edge = matrix.row_pointers[row]; edge < matrix.row_pointers[row + 1]; ++edge) {
      EdgeOffset const place = next[matrix.column_indices[edge]]++;
      by_input.outputs[place] = static_cast<NeuronIndex>(row);
      by_input.edges[place] = edge;
    }
  }
  return by_input;
}

} // namespace varve
