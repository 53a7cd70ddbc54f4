#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <type_traits>

/// Team scratch of level 0 beyond the 48 KiB that Kokkos gives a team on CUDA. A GPU has more shared memory (227 KiB a
/// team on H100 and H200, 163 on A100, 96 on V100) for kernels that ask for it. Kokkos 4.5 neither asks nor lets them:
/// its checks compare with a number that it once read from the driver, and the attribute of the kernel that it launches
/// is not reachable by its interface. Both are set here, and nowhere else; with a Kokkos of another version, of which
/// that was not tried, a team has 48 KiB, and plans have no wide tiles.
namespace varve {

#if defined(KOKKOS_ENABLE_CUDA) && KOKKOS_VERSION >= 40500 && KOKKOS_VERSION < 40600

inline constexpr bool kHasLargeScratch = true;

namespace detail {

/// Lets Kokkos's checks pass up to what the GPU gives to kernels that ask; returns these bytes.
inline std::size_t raise_scratch_limit() {
  auto& properties = const_cast<cudaDeviceProp&>(Kokkos::Cuda().cuda_device_prop());
  if (properties.sharedMemPerBlock < properties.sharedMemPerBlockOptin)
    properties.sharedMemPerBlock = properties.sharedMemPerBlockOptin;
  return properties.sharedMemPerBlock;
}

/// Asks for all scratch that the kernel of this functor and policy may have.
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

/// Must be called before a team kernel is launched with this policy; does nothing for kernels without scratch. It asks
/// before a kernel's first launch, also if that one needs little: Kokkos then reads the kernel's limit and keeps it,
/// and would refuse a later launch that needs more.
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

/// The same for a build without CUDA, or with a Kokkos of which the above was not tried.
template <class ExecutionSpace>
std::size_t max_team_scratch() {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return 49152;
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::HIP>) return 57344; // Kokkos leaves a team that much of 64 KiB
#endif
  return std::numeric_limits<int>::max();
}

template <class Kernel, class Policy>
void allow_scratch(Policy const& /*policy*/) {}

#endif

} // namespace varve
