#pragma once

#include <Kokkos_Core.hpp>

namespace varve {

/// Returns the `value` that vector lane `lane` of the calling team thread passes (a shuffle). Devices only. All `width`
/// vector lanes of the thread must call it together; width is a power of two, at most 32.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar from_lane(Scalar value, [[maybe_unused]] int lane, [[maybe_unused]] int width) {
#if defined(__CUDA_ARCH__)
  unsigned const in_warp = (threadIdx.y * blockDim.x + threadIdx.x) & 31U;
  unsigned const all = width == 32 ? 0xffffffffU : (1U << static_cast<unsigned>(width)) - 1U;
  unsigned const mask = all << (in_warp & ~(static_cast<unsigned>(width) - 1U)); // lanes of this team thread only
  return __shfl_sync(mask, value, lane, width);
#elif defined(__HIP_DEVICE_COMPILE__)
  return __shfl(value, lane, width);
#else
  return value;
#endif
}

} // namespace varve
