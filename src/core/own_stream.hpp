#pragma once

#include "core/execution.hpp"
#include "core/work_mark.hpp"

#include <Kokkos_Core.hpp>

#include <optional>
#include <utility>

namespace varve {

/// How soon a GPU begins the waiting kernels of a stream. Those of an urgent one begin before those of others: short
/// kernels on which others depend would else wait until long ones leave processors free.
enum class StreamPriority { ordinary, urgent };

/// An instance of an execution space beside the default one, whose stream no other instance waits for and which waits
/// for no other; Kokkos makes no such instances. On hosts, where work is done when it was given, it is the default
/// instance.
template <class ExecutionSpace, bool OnHost = kOnHost<ExecutionSpace>>
class OwnStream {
public:
  explicit OwnStream(StreamPriority /*priority*/) {}

  ExecutionSpace const& get() const { return space_; }

private:
  ExecutionSpace space_;
};

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

namespace detail {

#if defined(KOKKOS_ENABLE_CUDA)

struct GpuStream {
  using Handle = cudaStream_t;

  static Handle make(StreamPriority priority) {
    int least = 0;
    int greatest = 0;
    Handle handle = nullptr;
    GpuEvent::check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    GpuEvent::check(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking,
                                                 priority == StreamPriority::urgent ? greatest : least));
    return handle;
  }
  static void destroy(Handle handle) { static_cast<void>(cudaStreamDestroy(handle)); }
};

#else

struct GpuStream {
  using Handle = hipStream_t;

  static Handle make(StreamPriority priority) {
    int least = 0;
    int greatest = 0;
    Handle handle = nullptr;
    GpuEvent::check(hipDeviceGetStreamPriorityRange(&least, &greatest));
    GpuEvent::check(hipStreamCreateWithPriority(&handle, hipStreamNonBlocking,
                                                priority == StreamPriority::urgent ? greatest : least));
    return handle;
  }
  static void destroy(Handle handle) { static_cast<void>(hipStreamDestroy(handle)); }
};

#endif

} // namespace detail

template <class ExecutionSpace>
class OwnStream<ExecutionSpace, false> {
public:
  explicit OwnStream(StreamPriority priority)
      : stream_(detail::GpuStream::make(priority)), space_(std::in_place, stream_) {}
  ~OwnStream() {
    space_.reset();
    detail::GpuStream::destroy(stream_);
  }
  OwnStream(OwnStream const&) = delete;
  OwnStream& operator=(OwnStream const&) = delete;

  ExecutionSpace const& get() const { return *space_; }

private:
  detail::GpuStream::Handle stream_;
  std::optional<ExecutionSpace> space_;
};

#endif

} // namespace varve
