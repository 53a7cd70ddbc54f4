#pragma once

#include <Kokkos_Core.hpp>

/// Copies from memory to team scratch that run while the thread computes (cp.async), which Kokkos does not have: NVIDIA
/// GPUs of compute capability 8.0 or more. Their asynchrony is in this file alone.
namespace varve {

#if defined(KOKKOS_ENABLE_CUDA) &&                                                                                     \
    (defined(KOKKOS_ARCH_AMPERE) || defined(KOKKOS_ARCH_ADA89) || defined(KOKKOS_ARCH_HOPPER))
inline constexpr bool kHasScratchCopies = true;
#else
inline constexpr bool kHasScratchCopies = false;
#endif

/// Begins to copy a number, or a pack, of 4, 8 or 16 bytes to scratch, or to fill it with zeros if `is_there` is false;
/// `from` must be valid either way. Both addresses are multiples of its size. On a host the copy is done at once.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void begin_scratch_copy([[maybe_unused]] T* to, [[maybe_unused]] T const* from,
                                                    [[maybe_unused]] bool is_there) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  auto const target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  int const bytes = is_there ? static_cast<int>(sizeof(T)) : 0;
  if constexpr (sizeof(T) == 16) { // past the L1, which only copies of 16 bytes can
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

/// Waits until no more than the `Latest` last groups of this thread are on their way. Other threads see what has
/// arrived after a barrier.
template <int Latest>
KOKKOS_FORCEINLINE_FUNCTION void await_scratch_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Latest) : "memory");
#endif
}

} // namespace varve
