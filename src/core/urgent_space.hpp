#pragma once

#include "core/execution.hpp"
#include "core/work_mark.hpp"

#include <Kokkos_Core.hpp>

#include <optional>
#include <utility>

namespace varve {

/// An instance of an execution space beside the default one. A GPU begins its waiting kernels before those of other
/// instances: short kernels on which others depend would else wait until long ones leave processors free. Kokkos makes
/// no such instances. On hosts, where work is done when it was given, it is the default instance.
template <class ExecutionSpace, bool OnHost = kOnHost<ExecutionSpace>>
class UrgentSpace {
public:
  ExecutionSpace const& get() const { return space_; }

private:
  ExecutionSpace space_;
};

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

namespace detail {

#if defined(KOKKOS_ENABLE_CUDA)

struct UrgentStream {
  using Handle = cudaStream_t;

  static Handle make() {
    int least = 0;
    int greatest = 0;
    Handle handle = nullptr;
    GpuEvent::check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    GpuEvent::check(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, greatest));
    return handle;
  }
  static void destroy(Handle handle) { static_cast<void>(cudaStreamDestroy(handle)); }
};

#else

struct UrgentStream {
  using Handle = hipStream_t;

  static Handle make() {
    int least = 0;
    int greatest = 0;
    Handle handle = nullptr;
    GpuEvent::check(hipDeviceGetStreamPriorityRange(&least, &greatest));
    GpuEvent::check(hipStreamCreateWithPriority(&handle, hipStreamNonBlocking, greatest));
    return handle;
  }
  static void destroy(Handle handle) { static_cast<void>(hipStreamDestroy(handle)); }
};

#endif

} // namespace detail

template <class ExecutionSpace>
class UrgentSpace<ExecutionSpace, false> {
public:
  UrgentSpace() : stream_(detail::UrgentStream::make()), space_(std::in_place, stream_) {}
  ~UrgentSpace() {
    space_.reset();
    detail::UrgentStream::destroy(stream_);
  }
  UrgentSpace(UrgentSpace const&) = delete;
  UrgentSpace& operator=(UrgentSpace const&) = delete;

  ExecutionSpace const& get() const { return *space_; }

private:
  detail::UrgentStream::Handle stream_;
  std::optional<ExecutionSpace> space_;
};

#endif

} // namespace varve
