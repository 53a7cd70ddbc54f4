#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/printable.hpp"
#include "core/shared_device_memory.hpp"
#include "core/work_mark.hpp"

#include <Kokkos_Core.hpp>

#include <cstring>
#include <string>
#include <string_view>

namespace varve {

/// A WorkMark that other processes of this machine can open by its handle: work that they give to their devices waits
/// for the maker's work. Whoever opened it must be told by other means (a message) that the maker has set it, and calls
/// hold_back() after that and before the maker sets it again. On hosts work is done when it was given, so the message
/// alone suffices.
template <class ExecutionSpace, bool OnHost = kOnHost<ExecutionSpace>>
class SharedWorkMark {
public:
  SharedWorkMark() = default;
  explicit SharedWorkMark(std::string const& /*handle*/) {}

  std::string handle() const { return {}; }
  void set(ExecutionSpace const& /*space*/) {}
  void hold_back(ExecutionSpace const& /*space*/) const {}
};

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

namespace detail {

/// The calls of the runtime library of the GPU's vendor that SharedWorkMark needs beyond those of WorkMark. Each gives
/// the reason of a failure, or nothing.
#if defined(KOKKOS_ENABLE_CUDA)

struct GpuEventSharing {
  using Event = cudaEvent_t;
  using Handle = cudaIpcEventHandle_t;

  static std::string make(Event* event) {
    return GpuSharing::failure(cudaEventCreateWithFlags(event, cudaEventDisableTiming | cudaEventInterprocess));
  }
  static std::string make_handle(Handle* handle, Event event) {
    return GpuSharing::failure(cudaIpcGetEventHandle(handle, event));
  }
  static std::string open(Event* event, Handle const& handle) {
    return GpuSharing::failure(cudaIpcOpenEventHandle(event, handle));
  }
};

#else

struct GpuEventSharing {
  using Event = hipEvent_t;
  using Handle = hipIpcEventHandle_t;

  static std::string make(Event* event) {
    return GpuSharing::failure(hipEventCreateWithFlags(event, hipEventDisableTiming | hipEventInterprocess));
  }
  static std::string make_handle(Handle* handle, Event event) {
    return GpuSharing::failure(hipIpcGetEventHandle(handle, event));
  }
  static std::string open(Event* event, Handle const& handle) {
    return GpuSharing::failure(hipIpcOpenEventHandle(event, handle));
  }
};

#endif

} // namespace detail

template <class ExecutionSpace>
class SharedWorkMark<ExecutionSpace, false> {
public:
  /// Throws ResourceError if the machine does not let processes share marks.
  SharedWorkMark() {
    auto why = Sharing::make(&event_);
    if (!why.empty()) throw ResourceError("the GPU grants no mark that processes share: " + why);
    why = Sharing::make_handle(&handle_, event_);
    if (why.empty()) return;
    detail::GpuEvent::destroy(event_);
    throw ResourceError("processes cannot share marks of this GPU: " + why);
  }

  /// The mark of a handle. Throws ResourceError if it cannot be opened.
  explicit SharedWorkMark(std::string const& handle) {
    auto const bytes = from_hexadecimal(handle);
    if (bytes.size() != sizeof(handle_)) throw ResourceError("'" + handle + "' is no handle of a mark of a GPU");
    std::memcpy(&handle_, bytes.data(), sizeof(handle_));
    if (auto const why = Sharing::open(&event_, handle_); !why.empty())
      throw ResourceError("a mark of its GPU cannot be opened: " + why);
  }

  ~SharedWorkMark() { detail::GpuEvent::destroy(event_); }
  SharedWorkMark(SharedWorkMark const&) = delete;
  SharedWorkMark& operator=(SharedWorkMark const&) = delete;

  std::string handle() const {
    return hexadecimal(std::string_view(reinterpret_cast<char const*>(&handle_), sizeof(handle_)));
  }

  /// Moves the mark behind all work that the instance was given. For the maker alone.
  void set(ExecutionSpace const& space) { detail::GpuEvent::record(event_, space); }

  /// Work that the instance is given from now on begins after the mark.
  void hold_back(ExecutionSpace const& space) const { detail::GpuEvent::hold_back(event_, space); }

private:
  using Sharing = detail::GpuEventSharing;

  Sharing::Event event_ = nullptr;
  Sharing::Handle handle_{};
};

#endif

} // namespace varve
