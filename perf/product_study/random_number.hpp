#pragma once

#include <cstdint>

#if defined(KOKKOS_FORCEINLINE_FUNCTION)
#define VARVE_STUDY_FUNCTION KOKKOS_FORCEINLINE_FUNCTION
#else
#define VARVE_STUDY_FUNCTION inline
#endif

namespace varve::product_study {

/// Number `index` of a sequence from -1 to 1, the same on hosts and devices: SplitMix64 of Steele, Lea and Flood ("Fast
/// splittable pseudorandom number generators", 2014), whose numbers need not be made in order.
template <class Scalar>
VARVE_STUDY_FUNCTION Scalar random_number(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = (seed << 48U) + (index + 1) * 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebULL;
  bits ^= bits >> 31U;
  return static_cast<Scalar>(static_cast<double>(bits >> 11U) * 0x1p-52 - 1.0);
}

} // namespace varve::product_study
