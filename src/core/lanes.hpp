#pragma once

#include <Kokkos_Core.hpp>

namespace varve {

/// Devices only: what lane `lane` of the team thread's `width` vector lanes holds in `value`. All of them call it at
/// once; width is a power of two of at most 32.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar from_lane(Scalar value, [[maybe_unused]] int lane, [[maybe_unused]] int width) {
#if defined(__CUDA_ARCH__)
  unsigned const in_warp = (threadIdx.y * blockDim.x + threadIdx.x) & 31U;
  unsigned const all = width == 32 ? 0xffffffffU : (1U << static_cast<unsigned>(width)) - 1U;
  unsigned const mask = all << (in_warp & ~(static_cast<unsigned>(width) - 1U)); // other threads may be elsewhere
  return __shfl_sync(mask, value, lane, width);
#elif defined(__HIP_DEVICE_COMPILE__)
  return __shfl(value, lane, width);
#else
  return value;
#endif
}

} // namespace varve
