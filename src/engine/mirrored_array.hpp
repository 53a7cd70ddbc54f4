#pragma once

#include "core/device_numbers.hpp"

#include <cstddef>
#include <string>

namespace varve {

/// An array of zeros on a device with a buffer on the host, pinned if the device is not the host, so that copies
/// between them do not make the host wait.
template <class Number>
class MirroredArray {
public:
  MirroredArray() = default;
  MirroredArray(DeviceMemory const& memory, std::string const& label, std::size_t size)
      : is_host_(memory.is_host()), on_device_(new_zeros<Number>(memory, label, size)) {
    on_host_ =
        is_host_ ? on_device_ : numbers_in<Number>(memory.allocate_on_host(label + "_on_host", size * sizeof(Number)));
  }

  DeviceNumbers<Number> const& on_device() const { return on_device_; }

  /// Element of the host's buffer.
  Number const& operator[](std::size_t i) const { return on_host_.data()[i]; }

  /// Sets the first `count` elements of the host's buffer to number_of(i). No copy may be under way.
  template <class NumberOf>
  void fill(std::size_t count, NumberOf const& number_of) {
    for (std::size_t i = 0; i < count; ++i) on_host_.data()[i] = number_of(i);
  }

  /// Copies the first `count` elements to the device. Does not fence.
  void send(Lane const& lane, std::size_t count) {
    if (!is_host_) lane.copy_to_device(on_device_.data(), on_host_.data(), count * sizeof(Number));
  }

  /// Copies the first `count` elements to the host's buffer. Does not fence.
  void bring_back(Lane const& lane, std::size_t count) {
    if (!is_host_) lane.copy_to_host(on_host_.data(), on_device_.data(), count * sizeof(Number));
  }

private:
  bool is_host_ = true;
  DeviceNumbers<Number> on_device_, on_host_;
};

} // namespace varve
