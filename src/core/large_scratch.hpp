#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <type_traits>

/// Team scratch of level 0 beyond the 48 KiB that Kokkos gives a team on CUDA. A GPU has more shared memory (227 KiB
/// per team on H100 and H200, 163 on A100, 96 on V100) for kernels that request it. Kokkos 4.5 neither requests it nor
/// allows that: it checks against a limit that it read once from the driver, and its interface does not expose the
/// attributes of the launched kernel. Only this file sets both. With untested versions of Kokkos a team has 48 KiB, and
/// plans have no wide tiles.
namespace varve {

#if defined(KOKKOS_ENABLE_CUDA) && KOKKOS_VERSION >= 40500 && KOKKOS_VERSION < 40600

inline constexpr bool kHasLargeScratch = true;

namespace detail {

/// Raises the limit of Kokkos's checks to the GPU's opt-in limit; returns it in bytes.
inline std::size_t raise_scratch_limit() {
  auto& properties = const_cast<cudaDeviceProp&>(Kokkos::Cuda().cuda_device_prop());
  if (properties.sharedMemPerBlock < properties.sharedMemPerBlockOptin)
    properties.sharedMemPerBlock = properties.sharedMemPerBlockOptin;
  return properties.sharedMemPerBlock;
}

/// Requests all scratch that the kernel of this functor and policy may have.
template <class Kernel, class Policy>
void ask_for_scratch() {
  using Driver = Kokkos::Impl::ParallelFor<Kernel, Policy, Kokkos::Cuda>;
  constexpr auto mechanism = Kokkos::Impl::DeduceCudaLaunchMechanism<Driver>::launch_mechanism;
  auto const* const function = reinterpret_cast<void const*>(
      Kokkos::Impl::CudaParallelLaunchKernelFunc<Driver, typename Policy::launch_bounds, mechanism>::get_kernel_func());
  cudaFuncAttributes attributes{};
  bool const is_known = cudaFuncGetAttributes(&attributes, function) == cudaSuccess;
  auto const bytes = raise_scratch_limit() - (is_known ? attributes.sharedSizeBytes : 0);
  if (!is_known || cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(bytes)) != cudaSuccess)
    throw std::runtime_error("CUDA refuses a kernel the shared memory that the GPU reports");
}

} // namespace detail

/// Bytes of scratch of level 0 that a team may have on this execution space.
template <class ExecutionSpace>
std::size_t max_team_scratch() {
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return detail::raise_scratch_limit();
  return std::numeric_limits<int>::max();
}

/// Call before a team kernel is launched with this policy; does nothing for kernels without scratch. It must precede a
/// kernel's first launch, even one with little scratch: Kokkos then reads the kernel's limit once, and would refuse a
/// later launch that needs more.
template <class Kernel, class Policy>
void allow_scratch([[maybe_unused]] Policy const& policy) {
  if constexpr (std::is_same_v<typename Policy::execution_space, Kokkos::Cuda>) {
    static bool is_allowed = false;
    if (is_allowed || policy.scratch_size(0) == 0) return;
    detail::ask_for_scratch<Kernel, Policy>();
    is_allowed = true;
  }
}

#else

inline constexpr bool kHasLargeScratch = false;

/// The same for builds without CUDA, or with an untested version of Kokkos.
template <class ExecutionSpace>
std::size_t max_team_scratch() {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return 49152;
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::HIP>) return 57344; // Kokkos leaves a team this much of 64 KiB
#endif
  return std::numeric_limits<int>::max();
}

template <class Kernel, class Policy>
void allow_scratch(Policy const& /*policy*/) {}

#endif

} // namespace varve
