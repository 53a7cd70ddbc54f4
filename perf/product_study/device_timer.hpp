#pragma once

#include "core/execution.hpp"
#include "core/stopwatch.hpp"

#include <Kokkos_Core.hpp>

namespace varve::product_study {

/// The seconds that `work()` takes on an execution space instance: on GPUs between two events of its stream, without
/// the time to launch, on hosts by the clock.
template <class ExecutionSpace, class Work>
double seconds_of(ExecutionSpace const& space, Work const& work) {
  space.fence();
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) {
    cudaEvent_t events[2] = {};
    for (auto& event : events) KOKKOS_IMPL_CUDA_SAFE_CALL(cudaEventCreate(&event));
    KOKKOS_IMPL_CUDA_SAFE_CALL(cudaEventRecord(events[0], space.cuda_stream()));
    work();
    KOKKOS_IMPL_CUDA_SAFE_CALL(cudaEventRecord(events[1], space.cuda_stream()));
    KOKKOS_IMPL_CUDA_SAFE_CALL(cudaEventSynchronize(events[1]));
    float milliseconds = 0.0F;
    KOKKOS_IMPL_CUDA_SAFE_CALL(cudaEventElapsedTime(&milliseconds, events[0], events[1]));
    for (auto const& event : events) KOKKOS_IMPL_CUDA_SAFE_CALL(cudaEventDestroy(event));
    return 1e-3 * static_cast<double>(milliseconds);
  }
#elif defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::HIP>) {
    hipEvent_t events[2] = {};
    for (auto& event : events) KOKKOS_IMPL_HIP_SAFE_CALL(hipEventCreate(&event));
    KOKKOS_IMPL_HIP_SAFE_CALL(hipEventRecord(events[0], space.hip_stream()));
    work();
    KOKKOS_IMPL_HIP_SAFE_CALL(hipEventRecord(events[1], space.hip_stream()));
    KOKKOS_IMPL_HIP_SAFE_CALL(hipEventSynchronize(events[1]));
    float milliseconds = 0.0F;
    KOKKOS_IMPL_HIP_SAFE_CALL(hipEventElapsedTime(&milliseconds, events[0], events[1]));
    for (auto const& event : events) KOKKOS_IMPL_HIP_SAFE_CALL(hipEventDestroy(event));
    return 1e-3 * static_cast<double>(milliseconds);
  }
#endif
  Stopwatch const time;
  work();
  space.fence();
  return time.seconds();
}

} // namespace varve::product_study
