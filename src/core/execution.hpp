#pragma once

#include "core/backend.hpp"

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <cstdint>

/// Before a short loop of constant length whose arrays must stay in registers. (The host pass of nvcc takes no pragma;
/// g++ unrolls such loops at -O3 by itself.)
#if defined(__CUDA_ARCH__) || defined(__clang__)
#define VARVE_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define VARVE_UNROLL
#else
#define VARVE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace varve {

#if defined(KOKKOS_ENABLE_SERIAL)
inline constexpr bool kHasSerial = true;
#else
inline constexpr bool kHasSerial = false;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
inline constexpr bool kHasOpenMP = true;
#else
inline constexpr bool kHasOpenMP = false;
#endif
#if defined(KOKKOS_ENABLE_CUDA)
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

/// The name of an execution space at run time.
template <class ExecutionSpace>
constexpr Backend to_backend() {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return Backend::cuda;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::OpenMP>) return Backend::openmp;
#endif
  return Backend::serial;
}

/// What launches are sized by: threads on a host, multiprocessors on a GPU.
template <class ExecutionSpace>
int num_processors(ExecutionSpace const& space) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return space.cuda_device_prop().multiProcessorCount;
#endif
  return space.concurrency();
}

/// One-dimensional array on the memory space of an execution space.
template <class ExecutionSpace, class T>
using DeviceArray = Kokkos::View<T*, typename ExecutionSpace::memory_space>;

/// The same, to read only.
template <class ExecutionSpace, class T>
using ConstDeviceArray = Kokkos::View<T const*, typename ExecutionSpace::memory_space>;

template <class ExecutionSpace>
inline constexpr bool kOnHost =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename ExecutionSpace::memory_space>::accessible;

/// Tells the compiler of device code that a pointer which was itself loaded from memory points to global memory, so
/// that it reads there with the loads made for that.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void assume_global([[maybe_unused]] T const* pointer) {
  KOKKOS_IF_ON_DEVICE((__builtin_assume(__isGlobal(pointer));))
}

/// Adds to, or sets bits of, a word in team scratch that other threads of the team change too. On a GPU by the atomics
/// made for level 0 (Kokkos's, which must work on any memory, take several times as long); on the host a team is one
/// thread.
KOKKOS_FORCEINLINE_FUNCTION void add_in_scratch(std::uint32_t* word, std::uint32_t number) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    __builtin_assume(__isShared(word));
    atomicAdd(word, number);
  ))
  KOKKOS_IF_ON_HOST((*word += number;))
  // clang-format on
}
KOKKOS_FORCEINLINE_FUNCTION void set_bits_in_scratch(std::uint32_t* word, std::uint32_t bits) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    __builtin_assume(__isShared(word));
    atomicOr(word, bits);
  ))
  KOKKOS_IF_ON_HOST((*word |= bits;))
  // clang-format on
}

/// Labels everything launched while it lives, for Kokkos Tools.
using ProfilingRegion = Kokkos::Profiling::ScopedRegion;

} // namespace varve
