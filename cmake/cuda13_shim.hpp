#pragma once

// CUDA 13 changed three runtime calls that Kokkos before 4.7.01 makes with their old arguments. These overloads take
// the old arguments and pass them on; the build includes this header first in every file that sees such a Kokkos.
#if defined(__CUDACC__) || defined(__CUDA__)
#include <cuda_runtime_api.h>

#if defined(CUDART_VERSION) && CUDART_VERSION >= 13000

/// The place that CUDA 12 named by a device number, with cudaCpuDeviceId for the host.
inline cudaMemLocation varve_location_of_device(int device) {
  cudaMemLocation location{};
  location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

/// Dependencies without edge data.
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, cudaGraphNode_t const* from, cudaGraphNode_t const* to,
                                            size_t num_dependencies) {
  return cudaGraphAddDependencies(graph, from, to, static_cast<cudaGraphEdgeData const*>(nullptr), num_dependencies);
}

/// Prefetch to a device number, without flags.
inline cudaError_t cudaMemPrefetchAsync(void const* pointer, size_t count, int device, cudaStream_t stream = nullptr) {
  return cudaMemPrefetchAsync(pointer, count, varve_location_of_device(device), 0U, stream);
}

/// Advice about a device number.
inline cudaError_t cudaMemAdvise(void const* pointer, size_t count, cudaMemoryAdvise advice, int device) {
  return cudaMemAdvise(pointer, count, advice, varve_location_of_device(device));
}

#endif
#endif
