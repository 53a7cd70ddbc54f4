#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace varve {

/// On a GPU: has a number in a register here, so that its load is on its way from here on. Compilers move loads to the
/// first use of what they load, where the thread then waits for them.
template <class Number>
KOKKOS_FORCEINLINE_FUNCTION void hold([[maybe_unused]] Number& number) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Number) == sizeof(std::uint64_t)) {
    asm volatile("" : "+d"(number));
  } else if constexpr (std::is_floating_point_v<Number>) {
    asm volatile("" : "+f"(number));
  } else if constexpr (sizeof(Number) == sizeof(std::uint32_t)) {
    asm volatile("" : "+r"(number));
  } else {
    asm volatile("" : "+h"(number));
  }
#elif defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(number));
#endif
}

} // namespace varve
