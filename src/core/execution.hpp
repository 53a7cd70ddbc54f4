#pragma once

#include "core/backend.hpp"
#include "core/large_scratch.hpp"
#include "core/runtime.hpp"
#include "core/types.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace varve {

template <class... Spaces>
struct SpaceList {};

/// The execution spaces for which kernels are compiled, fastest first: one of a GPU, if there is any, and one of the
/// host, OpenMP or, in a build without it, Serial.
using CompiledSpaces = SpaceList<
#if defined(KOKKOS_ENABLE_CUDA)
    Kokkos::Cuda,
#endif
#if defined(KOKKOS_ENABLE_HIP)
    Kokkos::HIP,
#endif
    Kokkos::DefaultHostExecutionSpace>;

/// The Backend value of an execution space type.
template <class ExecutionSpace>
constexpr Backend to_backend() {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return Backend::cuda;
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::HIP>) return Backend::hip;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::OpenMP>) return Backend::openmp;
#endif
  return Backend::serial;
}

namespace detail {

template <Backend Wanted, class First, class... Rest>
constexpr auto find_space(SpaceList<First, Rest...> /*spaces*/) {
  if constexpr (to_backend<First>() == Wanted) {
    return std::type_identity<First>();
  } else {
    return find_space<Wanted>(SpaceList<Rest...>());
  }
}

} // namespace detail

/// The execution space type of a backend of this build.
template <Backend Wanted>
using SpaceOf = typename decltype(detail::find_space<Wanted>(CompiledSpaces()))::type;

/// The instance in which a backend runs kernels of this execution space if no other is given.
template <class ExecutionSpace>
ExecutionSpace instance_of_backend([[maybe_unused]] Backend backend) {
#if defined(KOKKOS_ENABLE_OPENMP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::OpenMP>) {
    if (backend == Backend::serial) return Kokkos::OpenMP(1);
  }
#endif
  return ExecutionSpace();
}

/// The number of processors for which launches are sized: threads on a host, multiprocessors (AMD: compute units) on a
/// GPU.
template <class ExecutionSpace>
int num_processors(ExecutionSpace const& space) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return space.cuda_device_prop().multiProcessorCount;
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::HIP>) return space.hip_device_prop().multiProcessorCount;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
  // concurrency() of Kokkos 4 is that of the default instance
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::OpenMP>) return space.impl_thread_pool_size();
#endif
  return space.concurrency();
}

/// Launches a kernel of teams with the functor as a kernel argument (CUDA: at most 4 KB). By default Kokkos copies
/// functors of 512 bytes (twenty Views) or more to constant memory, so that every launch waits for the previous one.
template <class Policy, class Kernel>
void launch_teams(std::string const& label, Policy const& policy, Kernel const& kernel) {
  auto const light = Kokkos::Experimental::require(policy, Kokkos::Experimental::WorkItemProperty::HintLightWeight);
  allow_scratch<Kernel>(light);
  Kokkos::parallel_for(label, light, kernel);
}

/// The same, with so many bytes of scratch of this level for each team.
template <class Policy, class Kernel>
void launch_teams(std::string const& label, Policy policy, Kernel const& kernel, int level, std::size_t bytes) {
  launch_teams(label, policy.set_scratch_size(level, Kokkos::PerTeam(static_cast<int>(bytes))), kernel);
}

/// Launches a kernel on the indices [0, count), if there are any. Does not fence.
template <class ExecutionSpace, class Kernel>
void launch_range(std::string const& label, ExecutionSpace const& space, std::size_t count, Kernel const& kernel) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  if (count > 0) Kokkos::parallel_for(label, Policy(space, 0, count), kernel);
}

/// The same for a kernel that tells its label and num_indices().
template <class ExecutionSpace, class Kernel>
void launch_range(ExecutionSpace const& space, Kernel const& kernel) {
  launch_range(Kernel::label, space, kernel.num_indices(), kernel);
}

/// One-dimensional array in the memory space of an execution space.
template <class ExecutionSpace, class T>
using DeviceArray = Kokkos::View<T*, typename ExecutionSpace::memory_space>;

template <class ExecutionSpace, class T>
using ConstDeviceArray = Kokkos::View<T const*, typename ExecutionSpace::memory_space>;

/// True if the host can access the memory of the execution space.
template <class ExecutionSpace>
inline constexpr bool kOnHost =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename ExecutionSpace::memory_space>::accessible;

/// The execution space for launches that are shorter than starting threads: one thread on a host. Fence the previously
/// used space first.
template <class ExecutionSpace>
using ShortSpace = std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::Serial, ExecutionSpace>;

/// The range [0, length) for a short launch after the launches of `space`, in ShortSpace; on a GPU in `space` itself.
template <class ExecutionSpace>
auto in_short_space(ExecutionSpace const& space, int length) {
  if constexpr (std::is_same_v<ShortSpace<ExecutionSpace>, ExecutionSpace>) {
    return Kokkos::RangePolicy<ExecutionSpace>(space, 0, length);
  } else {
    space.fence("varve: before a launch in one thread");
    return Kokkos::RangePolicy<ShortSpace<ExecutionSpace>>(0, length);
  }
}

namespace detail {

/// Lets the device compiler assume that a pointer is to team scratch, so that it emits shared-memory atomics.
KOKKOS_FORCEINLINE_FUNCTION void assume_in_scratch([[maybe_unused]] std::uint32_t const* pointer) {
#if defined(KOKKOS_ENABLE_HIP)
  KOKKOS_IF_ON_DEVICE((__builtin_assume(__builtin_amdgcn_is_shared(pointer));))
#else
  KOKKOS_IF_ON_DEVICE((__builtin_assume(__isShared(pointer));))
#endif
}

} // namespace detail

/// add_in_scratch adds to a word in team scratch, set_bits_in_scratch sets bits of it; other threads of the team may
/// update the same word. On a GPU both use shared-memory atomics (Kokkos's atomics, which accept any address, take
/// several times as long); on the host a team has one thread.
KOKKOS_FORCEINLINE_FUNCTION void add_in_scratch(std::uint32_t* word, std::uint32_t number) {
  detail::assume_in_scratch(word);
  // clang-format off
  KOKKOS_IF_ON_DEVICE((atomicAdd(word, number);))
  KOKKOS_IF_ON_HOST((*word += number;))
  // clang-format on
}
KOKKOS_FORCEINLINE_FUNCTION void set_bits_in_scratch(std::uint32_t* word, std::uint32_t bits) {
  detail::assume_in_scratch(word);
  // clang-format off
  KOKKOS_IF_ON_DEVICE((atomicOr(word, bits);))
  KOKKOS_IF_ON_HOST((*word |= bits;))
  // clang-format on
}

} // namespace varve
