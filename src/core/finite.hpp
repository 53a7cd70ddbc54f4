#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
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

} // namespace varve
