#pragma once

#include "core/beside_recordings.hpp"
#include "formats/device_layer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// Destination of the arrays of a format that is streamed, that is, copied to the device as a whole for each use: one
/// after another, aligned, in an image in host memory. Until move_arrays() gives them device addresses, the arrays of
/// the format are views whose pointer is the offset in the image; only their sizes may be used.
template <class ExecutionSpace>
class ArraysInImage {
public:
  static constexpr std::size_t alignment = 256; ///< bytes; device memory is allocated with this alignment

  template <class T>
  ConstDeviceArray<ExecutionSpace, T> put(std::string const& /*label*/, std::vector<T> const& numbers) {
    auto const [place, offset] = append<T>(numbers.size());
    std::ranges::copy(numbers, place.data()); // a deep_copy would wait for the device
    return offset;
  }

  /// Moves an array from the device into the image; `array` becomes a view at its offset and releases its device
  /// memory.
  template <class T>
  void take(Kokkos::View<T const*, typename ExecutionSpace::memory_space>& array) {
    auto const [place, offset] = append<T>(array.size());
    copy_and_wait(place, array);
    array = offset;
  }

  std::vector<unsigned char> const& bytes() const { return bytes_; }
  std::vector<unsigned char> release() { return std::move(bytes_); }

private:
  template <class T>
  using HostArray = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  /// Appends room for `count` numbers. Returns their place in the image and a view at their offset.
  template <class T>
  std::pair<HostArray<T>, ConstDeviceArray<ExecutionSpace, T>> append(std::size_t count) {
    std::size_t const offset = bytes_.size();
    bytes_.resize(offset + (count * sizeof(T) + alignment - 1) / alignment * alignment);
    return {HostArray<T>(reinterpret_cast<T*>(bytes_.data() + offset), count),
            ConstDeviceArray<ExecutionSpace, T>(reinterpret_cast<T const*>(offset), count)};
  }

  std::vector<unsigned char> bytes_;
};

/// Replaces the offsets of a format's arrays by device addresses; the image will be at `image` on the device.
template <class Format>
void move_arrays(Format& format, unsigned char const* image) {
  format.for_each_array([&](auto& array) {
    using Array = std::decay_t<decltype(array)>;
    auto const offset = reinterpret_cast<std::uintptr_t>(array.data());
    array = Array(reinterpret_cast<typename Array::pointer_type>(image + offset), array.size());
  });
}

} // namespace varve
