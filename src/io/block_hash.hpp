#pragma once

#include "core/host_threads.hpp"
#include "io/matrix_block.hpp"
#include "network/activations.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace varve {

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
