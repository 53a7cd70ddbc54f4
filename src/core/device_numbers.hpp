#pragma once

#include "core/device_memory.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// An array of numbers in the memory of a device, or a part of another such array. The memory lives as long as one of
/// its arrays.
template <class Number>
class DeviceNumbers {
public:
  DeviceNumbers() = default;
  DeviceNumbers(std::shared_ptr<std::byte> owner, Number* data, std::size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}
  template <class Other>
  requires std::is_same_v<Number, Other const> DeviceNumbers(DeviceNumbers<Other> const& other)
      : owner_(other.owner()), data_(other.data()), size_(other.size()) {}

  Number* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t num_bytes() const { return size_ * sizeof(Number); }
  std::shared_ptr<std::byte> const& owner() const { return owner_; }

  /// The numbers [first, last).
  DeviceNumbers part(std::size_t first, std::size_t last) const { return {owner_, data_ + first, last - first}; }

private:
  std::shared_ptr<std::byte> owner_;
  Number* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The memory as an array of numbers.
template <class Number>
DeviceNumbers<Number> numbers_in(DeviceBytes const& bytes) {
  return {bytes.owner(), bytes.template as<Number>(), bytes.size() / sizeof(Number)};
}

/// A new array on the device, not initialized.
template <class Number>
DeviceNumbers<Number> new_numbers(DeviceMemory const& memory, std::string const& label, std::size_t size) {
  return numbers_in<Number>(memory.allocate(label, size * sizeof(Number)));
}

/// A new array of zeros on the device.
template <class Number>
DeviceNumbers<Number> new_zeros(DeviceMemory const& memory, std::string const& label, std::size_t size) {
  auto const numbers = new_numbers<Number>(memory, label, size);
  memory.clear_and_wait(numbers.data(), numbers.num_bytes());
  return numbers;
}

/// A new array on the device with a copy of these numbers.
template <class Number>
DeviceNumbers<Number> new_copy(DeviceMemory const& memory, std::string const& label,
                               std::vector<Number> const& numbers) {
  return numbers_in<Number>(memory.upload(label, numbers));
}

/// A copy of the numbers of a device array in host memory.
template <class Number>
std::vector<std::remove_const_t<Number>> download(DeviceMemory const& memory, DeviceNumbers<Number> const& numbers) {
  std::vector<std::remove_const_t<Number>> found(numbers.size());
  memory.copy_to_host_and_wait(found.data(), numbers.data(), numbers.num_bytes());
  return found;
}

/// An array of zeros on a device with a buffer on the host, pinned unless the device is the host, so that the host need
/// not wait for copies between them.
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

  /// Sets the first `count` elements of the host's buffer to number_of(i). No copy may be in flight.
  template <class NumberOf>
  void fill(std::size_t count, NumberOf const& number_of) {
    for (std::size_t i = 0; i < count; ++i) on_host_.data()[i] = number_of(i);
  }

  /// Copies the first `count` elements to the device. Does not fence.
  void send(Stream const& stream, std::size_t count) {
    if (!is_host_) stream.copy_to_device(on_device_.data(), on_host_.data(), count * sizeof(Number));
  }

  /// Copies the first `count` elements to the host's buffer. Does not fence.
  void copy_back(Stream const& stream, std::size_t count) {
    if (!is_host_) stream.copy_to_host(on_host_.data(), on_device_.data(), count * sizeof(Number));
  }

private:
  bool is_host_ = true;
  DeviceNumbers<Number> on_device_, on_host_;
};

} // namespace varve
