#pragma once

#include "core/device_memory.hpp"

#include <Kokkos_Core.hpp>

#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <utility>

namespace varve {

/// The instance of an execution space in which a stream runs kernels.
template <class ExecutionSpace>
class DeviceStream : public Stream {
public:
  ExecutionSpace const& instance() const { return space_; }

protected:
  explicit DeviceStream(ExecutionSpace space) : space_(std::move(space)) {}

  ExecutionSpace space_;
};

/// The instance of a stream, which must be one of this execution space.
template <class ExecutionSpace>
ExecutionSpace const& instance_of(Stream const& stream) {
  return static_cast<DeviceStream<ExecutionSpace> const&>(stream).instance();
}

/// Decides what may run while a thread records launches (DeviceMemory::record()). If any thread waits for the whole
/// device during a CUDA recording, both the recording and the wait fail; freeing memory may imply such a wait. Threads
/// that do either first take not_while_recording(). Everything else may run during a recording, because recordings have
/// a separate stream: launches, copies and fences of other instances, and allocations.
class BesideRecordings {
public:
  using Lock = std::shared_lock<std::shared_mutex>;

  /// No thread records while the result exists. Throws std::logic_error if the calling thread records.
  [[nodiscard]] static Lock not_while_recording() {
    if (this_thread_records) throw std::logic_error("varve: launches that are recorded wait for the device");
    return Lock(guard);
  }

  /// A recording by this thread, the only one of the process, during the object's lifetime.
  class Recording {
  public:
    Recording() : lock_(guard) { this_thread_records = true; }
    ~Recording() { this_thread_records = false; }
    Recording(Recording const&) = delete;
    Recording& operator=(Recording const&) = delete;

  private:
    std::unique_lock<std::shared_mutex> lock_;
  };

private:
  static inline std::shared_mutex guard;
  static inline thread_local bool this_thread_records = false;
};

/// Copies an array, or sets all elements to a number, and returns when that is done. Also waits for all other work of
/// the device, on every instance.
template <class To, class From>
void copy_and_wait(To const& to, From const& from) {
  auto const lock = BesideRecordings::not_while_recording();
  Kokkos::deep_copy(to, from);
}

} // namespace varve
