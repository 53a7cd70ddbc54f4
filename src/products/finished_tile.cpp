#include "products/finished_tile.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>

namespace varve {
namespace {

/// Computes alpha * sum + beta * added for a row.
template <class Scalar>
void finish_row(TileSums<Scalar> const& tile, std::uint64_t row, ProductScaling const& scaling, Scalar const* added,
                Scalar* values) {
  auto const num_columns = tile.block.num_columns;
  auto const block_size = tile.block_rows * tile.block_columns;
  auto const* const first = tile.sums + row / tile.block_rows * tile.blocks_across() * block_size +
                            row % tile.block_rows * tile.block_columns;
  for (std::uint64_t begin = 0; begin < num_columns; begin += tile.block_columns) {
    auto const* const sums = first + begin * tile.block_rows;
    auto const count = std::min<std::uint64_t>(tile.block_columns, num_columns - begin);
    for (std::uint64_t column = 0; column < count; ++column) {
      auto const sum = static_cast<double>(sums[column]);
      double const value =
          added == nullptr ? scaling.alpha * sum
                           : std::fma(scaling.alpha, sum, scaling.beta * static_cast<double>(added[begin + column]));
      values[begin + column] = static_cast<Scalar>(value) + Scalar(0);
    }
  }
}

template <class Scalar>
void require_finite(MatrixBlock const& block, std::uint64_t row, Scalar const* values) {
  if (all_finite(values, static_cast<std::size_t>(block.num_columns))) return;
  for (std::uint64_t column = 0; column < block.num_columns; ++column) {
    if (std::isfinite(values[column])) continue;
    throw InputError(fmt::format("the number of the product in row {}, column {} (from 0) is {}: its sum is too large "
                                 "for {}",
                                 block.first_row + row, block.first_column + column, values[column],
                                 std::is_same_v<Scalar, float> ? "float; try --precision double" : "double"));
  }
}

} // namespace

template <class Scalar>
std::uint64_t finish_tile(TileSums<Scalar> const& sums, ProductScaling const& scaling, Scalar const* added,
                          Scalar* values) {
  auto const& block = sums.block;
  std::atomic<std::uint64_t> hash = 0;
  for_each_rows(block, [&](std::uint64_t first, std::uint64_t last) {
    std::uint64_t part = 0;
    for (auto row = first; row < last; ++row) {
      auto const place = row * block.num_columns;
      finish_row(sums, row, scaling, added == nullptr ? nullptr : added + place, values + place);
      require_finite(block, row, values + place);
      part += hash_of_row(block, row, values + place);
    }
    hash += part;
  });
  return hash;
}
template std::uint64_t finish_tile(TileSums<float> const&, ProductScaling const&, float const*, float*);
template std::uint64_t finish_tile(TileSums<double> const&, ProductScaling const&, double const*, double*);

} // namespace varve
