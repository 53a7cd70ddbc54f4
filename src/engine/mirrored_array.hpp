#pragma once

#include "core/execution.hpp"

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

namespace varve {

/// An array on a device with a buffer on the host, pinned if the device is not the host, so that copies between them
/// do not make the host wait.
template <class ExecutionSpace, class T>
class MirroredArray {
public:
  MirroredArray() = default;
  MirroredArray(std::string const& label, std::size_t size) : on_device_(label, size) {
    if constexpr (kOnHost<ExecutionSpace>) {
      on_host_ = on_device_;
    } else {
      on_host_ = Buffer(label + "_on_host", size);
    }
  }

  DeviceArray<ExecutionSpace, T> const& on_device() const { return on_device_; }

  /// Element of the host's buffer.
  T const& operator[](std::size_t i) const { return on_host_(i); }

  /// Sets the first `count` elements of the host's buffer to number_of(i). No copy may be under way.
  template <class NumberOf>
  void fill(std::size_t count, NumberOf const& number_of) {
    for (std::size_t i = 0; i < count; ++i) on_host_(i) = number_of(i);
  }

  /// Copies the first `count` elements to the device. Does not fence.
  void send(ExecutionSpace const& space, std::size_t count) {
    if constexpr (!kOnHost<ExecutionSpace>) Kokkos::deep_copy(space, front(on_device_, count), front(on_host_, count));
  }

  /// Copies the first `count` elements to the host's buffer. Does not fence.
  void bring_back(ExecutionSpace const& space, std::size_t count) {
    if constexpr (!kOnHost<ExecutionSpace>) Kokkos::deep_copy(space, front(on_host_, count), front(on_device_, count));
  }

private:
  using Buffer = std::conditional_t<kOnHost<ExecutionSpace>, DeviceArray<ExecutionSpace, T>,
                                    Kokkos::View<T*, Kokkos::SharedHostPinnedSpace>>;

  template <class Array>
  static auto front(Array const& array, std::size_t count) {
    return Kokkos::subview(array, std::make_pair(std::size_t(0), count));
  }

  DeviceArray<ExecutionSpace, T> on_device_;
  Buffer on_host_;
};

} // namespace varve
