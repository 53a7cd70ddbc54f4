#include "../gpu_of_thread.hpp"

#include "core/gpu.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda.h>
#endif

namespace varve::python {
namespace {

#if defined(KOKKOS_ENABLE_CUDA)

int gpu_of_thread() {
  int number = -1;
  return cudaGetDevice(&number) == cudaSuccess ? number : -1;
}
void set_gpu_of_thread(int number) { static_cast<void>(cudaSetDevice(number)); }

/// False for a GPU that nothing in this process has used; choosing it would take memory there.
bool is_in_use(int number) {
  unsigned int flags = 0;
  int is_active = 0;
  return cuDevicePrimaryCtxGetState(number, &flags, &is_active) == CUDA_SUCCESS && is_active != 0;
}

#elif defined(KOKKOS_ENABLE_HIP)

int gpu_of_thread() {
  int number = -1;
  return hipGetDevice(&number) == hipSuccess ? number : -1;
}
void set_gpu_of_thread(int number) { static_cast<void>(hipSetDevice(number)); }
bool is_in_use(int /*number*/) { return true; } // choosing a GPU takes no memory there

#else

int gpu_of_thread() { return -1; }
void set_gpu_of_thread(int /*number*/) {}
bool is_in_use(int /*number*/) { return false; }

#endif

} // namespace

GpuOfThread::GpuOfThread() : before_(gpu_of_thread()) {}

GpuOfThread::~GpuOfThread() {
  if (before_ >= 0 && before_ != gpu_of_thread() && is_in_use(before_)) set_gpu_of_thread(before_);
}

void GpuOfThread::use_that_of_kokkos() const {
  if (before_ >= 0 && gpu_of_thread() != gpu::number()) set_gpu_of_thread(gpu::number());
}

} // namespace varve::python
