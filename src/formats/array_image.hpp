#pragma once

#include "formats/device_layer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// Where the arrays of a format go if its layer is to be copied to the device as a whole, and again whenever it is
/// needed: one after another, aligned, into an image in host memory. Until move_arrays() says where on the device the
/// image will lie, the arrays of the format are views at their offsets in the image, which know their sizes only.
template <class ExecutionSpace>
class ArraysInImage {
public:
  static constexpr std::size_t alignment = 256; ///< as device memory is allocated

  template <class T>
  ConstDeviceArray<ExecutionSpace, T> put(std::string const& /*label*/, std::vector<T> const& numbers) {
    auto const [place, offset] = append<T>(numbers.size());
    std::ranges::copy(numbers, place.data()); // a deep_copy would wait for the device
    return offset;
  }

  /// Brings an array back from the device; the view, which may have owned it, is one at its offset then.
  template <class T>
  void take(Kokkos::View<T const*, typename ExecutionSpace::memory_space>& array) {
    auto const [place, offset] = append<T>(array.size());
    Kokkos::deep_copy(place, array);
    array = offset;
  }

  std::vector<unsigned char> const& bytes() const { return bytes_; }
  std::vector<unsigned char> release() { return std::move(bytes_); }

private:
  template <class T>
  using HostArray = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  /// Room for so many numbers: where they go, and the view at their offset.
  template <class T>
  std::pair<HostArray<T>, ConstDeviceArray<ExecutionSpace, T>> append(std::size_t count) {
    std::size_t const offset = bytes_.size();
    bytes_.resize(offset + (count * sizeof(T) + alignment - 1) / alignment * alignment);
    return {HostArray<T>(reinterpret_cast<T*>(bytes_.data() + offset), count),
            ConstDeviceArray<ExecutionSpace, T>(reinterpret_cast<T const*>(offset), count)};
  }

  std::vector<unsigned char> bytes_;
};

/// Lets a format whose arrays are in an image find them where the image will lie on the device.
template <class Format>
void move_arrays(Format& format, unsigned char const* image) {
  format.for_each_array([&](auto& array) {
    using Array = std::decay_t<decltype(array)>;
    auto const offset = reinterpret_cast<std::uintptr_t>(array.data());
    array = Array(reinterpret_cast<typename Array::pointer_type>(image + offset), array.size());
  });
}

} // namespace varve
