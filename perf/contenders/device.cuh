#pragma once

#include "core/error.hpp"
#include "core/types.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace varve::contenders {

/// Throws ResourceError unless a call of the CUDA runtime succeeded.
inline void check(cudaError_t status, char const* what) {
  if (status != cudaSuccess) throw ResourceError(std::string(what) + " failed: " + cudaGetErrorString(status));
}

/// An array on the device.
template <class T>
class DeviceArray {
public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t size) : size_(size) {
    if (size > 0) check(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)), "allocating device memory");
  }
  explicit DeviceArray(std::vector<T> const& host) : DeviceArray(host.size()) {
    if (size_ == 0) return;
    check(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "copying to the device");
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

  /// The first `count` elements on the host.
  std::vector<T> download(std::size_t count) const {
    std::vector<T> host(count);
    if (count == 0) return host;
    check(cudaMemcpy(host.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost), "copying from the device");
    return host;
  }

private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace varve::contenders
