#pragma once

#include <Kokkos_Core.hpp>

#include <mutex>
#include <shared_mutex>
#include <stdexcept>

namespace varve {

/// The one place that decides what may run while a thread records launches (DeviceMemory::record()). CUDA fails a
/// recording, and the call itself, if any thread waits for the whole device meanwhile; memory may be freed by waiting
/// so. Threads that do either first take not_while_recording(). Everything else may run beside a recording, because
/// recordings have a stream of their own: launches, copies and fences of other instances, and new memory.
class BesideRecordings {
public:
  using Lock = std::shared_lock<std::shared_mutex>;

  /// No thread records while the result lives. Throws std::logic_error in a thread that records.
  [[nodiscard]] static Lock not_while_recording() {
    if (this_thread_records) throw std::logic_error("varve: launches that are recorded wait for the device");
    return Lock(guard);
  }

  /// The only recording of the process, by this thread, during its lifetime.
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

/// Copies an array, or sets all elements to a number, and returns when that is done. Waits for all other work of the
/// device, too, whatever its instance.
template <class To, class From>
void copy_and_wait(To const& to, From const& from) {
  auto const lock = BesideRecordings::not_while_recording();
  Kokkos::deep_copy(to, from);
}

} // namespace varve
