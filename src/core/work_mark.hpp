#pragma once

#include "core/execution.hpp"

#include <Kokkos_Core.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace varve {

namespace detail {

#if defined(KOKKOS_ENABLE_CUDA)

/// An event of CUDA without a time. The thread that waits for it sleeps.
struct GpuEvent {
  using Handle = cudaEvent_t;
  using ExecutionSpace = Kokkos::Cuda;

  static void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(std::string("varve: CUDA: ") + cudaGetErrorString(status));
  }
  static Handle make() {
    Handle handle = nullptr;
    check(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming | cudaEventBlockingSync));
    return handle;
  }
  static void destroy(Handle handle) { static_cast<void>(cudaEventDestroy(handle)); }
  static void record(Handle handle, ExecutionSpace const& space) {
    check(cudaEventRecord(handle, space.cuda_stream()));
  }
  static void hold_back(Handle handle, ExecutionSpace const& space) {
    check(cudaStreamWaitEvent(space.cuda_stream(), handle, 0));
  }
  static void await(Handle handle, int device) {
    check(cudaSetDevice(device)); // a new thread is on the first device
    check(cudaEventSynchronize(handle));
  }
  static bool is_reached(Handle handle) {
    auto const status = cudaEventQuery(handle);
    if (status != cudaErrorNotReady) check(status);
    return status == cudaSuccess;
  }
  static int device_of(ExecutionSpace const& space) { return space.cuda_device(); }
};

#elif defined(KOKKOS_ENABLE_HIP)

/// The same for HIP.
struct GpuEvent {
  using Handle = hipEvent_t;
  using ExecutionSpace = Kokkos::HIP;

  static void check(hipError_t status) {
    if (status != hipSuccess) throw std::runtime_error(std::string("varve: HIP: ") + hipGetErrorString(status));
  }
  static Handle make() {
    Handle handle = nullptr;
    check(hipEventCreateWithFlags(&handle, hipEventDisableTiming | hipEventBlockingSync));
    return handle;
  }
  static void destroy(Handle handle) { static_cast<void>(hipEventDestroy(handle)); }
  static void record(Handle handle, ExecutionSpace const& space) { check(hipEventRecord(handle, space.hip_stream())); }
  static void hold_back(Handle handle, ExecutionSpace const& space) {
    check(hipStreamWaitEvent(space.hip_stream(), handle, 0));
  }
  static void await(Handle handle, int device) {
    check(hipSetDevice(device));
    check(hipEventSynchronize(handle));
  }
  static bool is_reached(Handle handle) {
    auto const status = hipEventQuery(handle);
    if (status != hipErrorNotReady) check(status);
    return status == hipSuccess;
  }
  static int device_of(ExecutionSpace const& space) { return space.hip_device(); }
};

#endif

} // namespace detail

/// A point in the work of an execution space instance that other instances and threads can wait for, which Kokkos does
/// not have. On hosts work is done when it was given, so no one waits.
template <class ExecutionSpace, bool OnHost = kOnHost<ExecutionSpace>>
class WorkMark {
public:
  void set(ExecutionSpace const& /*space*/) {}
  void hold_back(ExecutionSpace const& /*space*/) const {}
  void await() const {}
  bool is_reached() const { return true; }
};

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

template <class ExecutionSpace>
class WorkMark<ExecutionSpace, false> {
public:
  WorkMark() = default;
  WorkMark(WorkMark&& other) noexcept
      : handle_(std::exchange(other.handle_, Handle())), device_(other.device_), is_set_(other.is_set_) {}
  WorkMark& operator=(WorkMark&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(device_, other.device_);
    std::swap(is_set_, other.is_set_);
    return *this;
  }
  ~WorkMark() {
    if (handle_ != Handle()) Event::destroy(handle_);
  }

  /// Moves the mark behind all work that the instance was given.
  void set(ExecutionSpace const& space) {
    if (handle_ == Handle()) {
      handle_ = Event::make();
      device_ = Event::device_of(space);
    }
    Event::record(handle_, space);
    is_set_ = true;
  }

  /// Work that the instance is given from now on begins after the mark. A mark that was never set holds nothing back.
  void hold_back(ExecutionSpace const& space) const {
    if (is_set_) Event::hold_back(handle_, space);
  }

  /// Returns when all work before the mark is done. Other threads than that of set() may call it.
  void await() const {
    if (is_set_) Event::await(handle_, device_);
  }

  /// Returns true when all work before the mark is done.
  bool is_reached() const { return !is_set_ || Event::is_reached(handle_); }

private:
  using Event = detail::GpuEvent;
  using Handle = typename Event::Handle;

  Handle handle_ = Handle();
  int device_ = 0;
  bool is_set_ = false;
};

#endif

} // namespace varve
