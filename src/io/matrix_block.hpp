#pragma once

#include "core/host_threads.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace varve {

/// True if no number is infinite or NaN. Counts in integers, without a branch, so that compilers vectorize the loop.
template <class Scalar>
bool all_finite(Scalar const* values, std::size_t count) {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<Scalar>::infinity());
  Bits num_others = 0;
  for (std::size_t i = 0; i < count; ++i)
    num_others |= (std::bit_cast<Bits>(values[i]) & exponent) == exponent ? Bits(1) : Bits(0);
  return num_others == 0;
}

/// The rows [first_row, first_row + num_rows) and columns [first_column, first_column + num_columns) of a matrix. Its
/// numbers lie in memory row by row, without gaps.
struct MatrixBlock {
  std::uint64_t first_row = 0;
  std::uint64_t num_rows = 0;
  std::uint64_t first_column = 0;
  std::uint64_t num_columns = 0;

  std::uint64_t size() const { return num_rows * num_columns; }
};

/// Throws InputError about number `offset` of a block, which `precision` cannot hold. (Not here: nvcc cannot compile
/// {fmt}.)
template <class Stored>
[[noreturn]] void fail_not_finite(MatrixBlock const& block, std::uint64_t offset, std::string const& place,
                                  Stored found, char const* precision);
extern template void fail_not_finite(MatrixBlock const&, std::uint64_t, std::string const&, float, char const*);
extern template void fail_not_finite(MatrixBlock const&, std::uint64_t, std::string const&, double, char const*);

/// Throws InputError, naming `place`, row and column, if a number of a block of a matrix is infinite or NaN: the matrix
/// holds it, or Scalar cannot hold what it holds. `values`: the numbers row by row; `stored`: the same as the matrix
/// holds them, for the message.
template <class Scalar, class Stored>
void require_finite(MatrixBlock const& block, Scalar const* values, std::string const& place, Stored const* stored) {
  if (all_finite(values, static_cast<std::size_t>(block.size()))) return;
  auto const* const found =
      std::find_if_not(values, values + block.size(), [](Scalar value) { return std::isfinite(value); });
  auto const offset = static_cast<std::uint64_t>(found - values);
  fail_not_finite(block, offset, place, stored[offset], std::is_same_v<Scalar, float> ? "float" : "double");
}

template <class Scalar>
void require_finite(MatrixBlock const& block, Scalar const* values, std::string const& place) {
  require_finite(block, values, place, values);
}

/// The sum of the fingerprints of the nonzero numbers in a row of a block, modulo 2^64 (see activation_fingerprint).
/// `values`: the numbers of the row, which is counted from the first one of the block.
template <class Scalar>
std::uint64_t hash_of_row(MatrixBlock const& block, std::uint64_t row, Scalar const* values) {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
  std::uint64_t hash = 0;
  for (std::uint64_t column = 0; column < block.num_columns; ++column) {
    auto const bits = std::bit_cast<Bits>(values[column]);
    auto const fingerprint = activation_fingerprint(block.first_row + row, block.first_column + column, bits);
    hash += bits == 0 ? 0 : fingerprint; // without a branch compilers vectorize the loop
  }
  return hash;
}

/// Calls work(first row, last row) on host threads, rows of the block from 0.
template <class Work>
void for_each_rows(MatrixBlock const& block, Work const& work) {
  constexpr std::uint64_t rows_at_a_time = 64;
  auto const parts = (block.num_rows + rows_at_a_time - 1) / rows_at_a_time;
  for_each_on_host_threads(parts, [&](std::size_t part) {
    auto const first = part * rows_at_a_time;
    work(first, std::min(first + rows_at_a_time, block.num_rows));
  });
}

/// The sum of hash_of_row() for all rows of a block. The sum over the blocks of a matrix does not depend on the blocks.
template <class Scalar>
std::uint64_t hash_of_block(MatrixBlock const& block, Scalar const* values) {
  std::atomic<std::uint64_t> hash = 0;
  for_each_rows(block, [&](std::uint64_t first, std::uint64_t last) {
    std::uint64_t part = 0;
    for (auto row = first; row < last; ++row) part += hash_of_row(block, row, values + row * block.num_columns);
    hash += part;
  });
  return hash;
}

} // namespace varve
