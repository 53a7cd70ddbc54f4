#pragma once

#include "core/error.hpp"
#include "core/finite.hpp"
#include "io/matrix_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace varve {

/// Throws InputError, naming `place`, row and column, if a number of a block of a matrix is infinite or NaN: the matrix
/// holds it, or Scalar cannot hold what it holds. `values`: the numbers row by row; `stored`: the same as the matrix
/// holds them, for the message.
template <class Scalar, class Stored>
void require_finite(MatrixBlock const& block, Scalar const* values, std::string const& place, Stored const* stored) {
  if (all_finite(values, static_cast<std::size_t>(block.size()))) return;
  auto const* const found =
      std::find_if_not(values, values + block.size(), [](Scalar value) { return std::isfinite(value); });
  auto const offset = static_cast<std::uint64_t>(found - values);
  throw InputError(fmt::format("{}: found {} in row {}, column {} (from 0), expected a finite number that {} can hold",
                               place, stored[offset], block.first_row + offset / block.num_columns,
                               block.first_column + offset % block.num_columns,
                               std::is_same_v<Scalar, float> ? "float" : "double"));
}

template <class Scalar>
void require_finite(MatrixBlock const& block, Scalar const* values, std::string const& place) {
  require_finite(block, values, place, values);
}

} // namespace varve
