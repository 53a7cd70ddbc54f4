#pragma once

#include <mutex>

namespace varve::v0_3 {

/// The right to use the devices of this process, which one thread has at a time; others wait. Kernels share the device,
/// and an instance of one of Kokkos's execution spaces serves one thread at a time. A thread may take it again while
/// it has it, such as in a callback.
class Turn {
public:
  Turn() : lock_(guard) {}

private:
  static inline std::recursive_mutex guard;
  std::unique_lock<std::recursive_mutex> lock_;
};

/// For unique_ptr: frees what has memory on a device.
struct FreeInTurn {
  template <class T>
  void operator()(T* object) const {
    Turn const turn;
    delete object;
  }
};

} // namespace varve::v0_3
