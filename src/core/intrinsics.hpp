#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

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

/// On a GPU: forces a number into a register at this point, so that its load is issued here. Compilers otherwise move
/// loads to their first use, where the thread then waits.
template <class Number>
KOKKOS_FORCEINLINE_FUNCTION void keep_in_register([[maybe_unused]] Number& number) {
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

// Asynchronous copies from memory to team scratch (cp.async), which Kokkos does not provide: NVIDIA GPUs of compute
// capability 8.0 or more. Only this file uses the instructions.

#if defined(KOKKOS_ENABLE_CUDA) &&                                                                                     \
    (defined(KOKKOS_ARCH_AMPERE) || defined(KOKKOS_ARCH_ADA89) || defined(KOKKOS_ARCH_HOPPER))
inline constexpr bool kHasScratchCopies = true;
#else
inline constexpr bool kHasScratchCopies = false;
#endif

/// Starts to copy a number or pack of 4, 8 or 16 bytes to scratch, or zeros if `is_there` is false; `from` must be
/// valid in any case. Both addresses must be multiples of the size. On a host the copy completes immediately.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void begin_scratch_copy([[maybe_unused]] T* to, [[maybe_unused]] T const* from,
                                                    [[maybe_unused]] bool is_there) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  auto const target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  int const bytes = is_there ? static_cast<int>(sizeof(T)) : 0;
  if constexpr (sizeof(T) == 16) { // bypasses the L1, which only copies of 16 bytes can
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(target), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(target), "l"(from), "n"(sizeof(T)), "r"(bytes)
                 : "memory");
  }
#elif !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  *to = is_there ? *from : T();
#endif
}

/// Ends a group of copies of this thread; a group may be empty.
KOKKOS_FORCEINLINE_FUNCTION void end_scratch_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/// Waits until at most the `Latest` last groups of this thread are in flight. Other threads see the data after a
/// barrier.
template <int Latest>
KOKKOS_FORCEINLINE_FUNCTION void await_scratch_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Latest) : "memory");
#endif
}

// FP64 tensor cores of NVIDIA GPUs of compute capability 8.0 or more, which Kokkos does not provide. Only this file has
// the inline assembly.

/// A thread's part of a sum of products by a warp: 16 x 8 sums, 16 x 4 numbers of A, 4 x 8 of B. Lane l of the warp
/// holds rows l / 4 and l / 4 + 8 of A and of the sums; column l % 4 of A and row l % 4 of B; columns 2 * (l % 4) and 2
/// * (l % 4) + 1 of the sums; column l / 4 of B.
struct MatrixSums {
  double of_row[2][2];
};

/// Adds four products to each of the 16 x 8 sums of a warp, as four fma in ascending order of k, each rounded to
/// nearest: bitwise equal to the chain, with subnormals, infinities and zeros of either sign (perf/TRIED.md;
/// tests/products/product_engine_test.cpp). All lanes of the warp must call it together.
KOKKOS_FORCEINLINE_FUNCTION void add_matrix_product([[maybe_unused]] MatrixSums& sums,
                                                    [[maybe_unused]] double const (&a)[2], [[maybe_unused]] double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};\n"
               : "+d"(sums.of_row[0][0]), "+d"(sums.of_row[0][1]), "+d"(sums.of_row[1][0]), "+d"(sums.of_row[1][1])
               : "d"(a[0]), "d"(a[1]), "d"(b));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};\n"
                 : "+d"(sums.of_row[half][0]), "+d"(sums.of_row[half][1])
                 : "d"(a[half]), "d"(b));
  }
#endif
}

/// Destination cache and purpose of a prefetch.
enum class FetchTo { l1, l2, l1_for_stores };

/// On a host: prefetches `count` numbers from this address on. The address need not be valid. No-op on a device.
template <FetchTo To = FetchTo::l1, class T>
KOKKOS_FORCEINLINE_FUNCTION void fetch([[maybe_unused]] T const* first, [[maybe_unused]] std::size_t count) {
  // clang-format off
  KOKKOS_IF_ON_HOST((
    constexpr std::size_t line = 64;
    auto const* const bytes = reinterpret_cast<char const*>(first);
    for (std::size_t byte = 0; byte < count * sizeof(T); byte += line)
      __builtin_prefetch(bytes + byte, To == FetchTo::l1_for_stores ? 1 : 0, To == FetchTo::l2 ? 2 : 3);
  ))
  // clang-format on
}

} // namespace varve
