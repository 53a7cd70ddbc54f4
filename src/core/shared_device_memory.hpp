#pragma once

#include "core/error.hpp"
#include "core/printable.hpp"

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

namespace varve {

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

namespace detail {

/// The calls of the runtime library of the GPU's vendor that SharedDeviceMemory needs. `allocate` gives memory of its
/// own allocation: what Kokkos allocates may come from a pool that other processes cannot open. `copy` waits until the
/// bytes have arrived: a plain copy from the host may return while they are on their way to the GPU, and another
/// process would not find them.
#if defined(KOKKOS_ENABLE_CUDA)

struct GpuSharing {
  using Handle = cudaIpcMemHandle_t;

  static std::string failure(cudaError_t status) {
    if (status == cudaSuccess) return {};
    static_cast<void>(cudaGetLastError()); // the next call shall not report it again
    return cudaGetErrorString(status);
  }
  static std::string allocate(void** data, std::size_t bytes) { return failure(cudaMalloc(data, bytes)); }
  static void free(void* data) { static_cast<void>(failure(cudaFree(data))); }
  static std::string make_handle(Handle* handle, void* data) { return failure(cudaIpcGetMemHandle(handle, data)); }
  static std::string open(void** data, Handle const& handle) {
    return failure(cudaIpcOpenMemHandle(data, handle, cudaIpcMemLazyEnablePeerAccess));
  }
  static void close(void* data) { static_cast<void>(failure(cudaIpcCloseMemHandle(data))); }
  static std::string copy(void* to, void const* from, std::size_t bytes) {
    auto why = failure(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    return why.empty() ? failure(cudaStreamSynchronize(nullptr)) : why;
  }
};

#else

struct GpuSharing {
  using Handle = hipIpcMemHandle_t;

  static std::string failure(hipError_t status) {
    if (status == hipSuccess) return {};
    static_cast<void>(hipGetLastError());
    return hipGetErrorString(status);
  }
  static std::string allocate(void** data, std::size_t bytes) { return failure(hipMalloc(data, bytes)); }
  static void free(void* data) { static_cast<void>(failure(hipFree(data))); }
  static std::string make_handle(Handle* handle, void* data) { return failure(hipIpcGetMemHandle(handle, data)); }
  static std::string open(void** data, Handle const& handle) {
    return failure(hipIpcOpenMemHandle(data, handle, hipIpcMemLazyEnablePeerAccess));
  }
  static void close(void* data) { static_cast<void>(failure(hipIpcCloseMemHandle(data))); }
  static std::string copy(void* to, void const* from, std::size_t bytes) {
    auto why = failure(hipMemcpy(to, from, bytes, hipMemcpyDefault));
    return why.empty() ? failure(hipStreamSynchronize(nullptr)) : why;
  }
};

#endif

} // namespace detail

/// Memory of the GPU in use that other processes of this machine can open by its handle, and copy from. Those who
/// opened it must let it go before its maker does.
class SharedDeviceMemory {
public:
  /// Memory of the GPU in use. Throws ResourceError if there is not so much, or if the machine does not let processes
  /// share it.
  explicit SharedDeviceMemory(std::size_t bytes) : size_(bytes), is_made_here_(true) {
    // an allocation of whole pages shares nothing else
    auto const whole = (bytes + sizeof(Seal) + page - 1) / page * page;
    if (auto const why = Gpu::allocate(&data_, whole); !why.empty())
      throw ResourceError("the GPU grants no " + std::to_string(whole) + " bytes: " + why);
    std::random_device random;
    for (auto& word : seal_) word = random();
    auto why = Gpu::copy(behind(), seal_.data(), sizeof(Seal));
    if (why.empty()) why = Gpu::make_handle(&memory_, data_);
    if (why.empty()) return;
    Gpu::free(data_);
    throw ResourceError("processes cannot share memory of this GPU: " + why);
  }

  /// The memory of a handle. Throws ResourceError if it cannot be opened or a copy from it fails.
  explicit SharedDeviceMemory(std::string const& handle) {
    read_handle(handle);
    if (auto const why = Gpu::open(&data_, memory_); !why.empty())
      throw ResourceError("memory of its GPU cannot be opened: " + why);
    Seal found{};
    auto const why = Gpu::copy(found.data(), behind(), sizeof(Seal));
    if (why.empty() && found == seal_) return;
    Gpu::close(data_);
    throw ResourceError("a copy from its GPU fails: " + (why.empty() ? "it gives other numbers" : why));
  }

  ~SharedDeviceMemory() {
    if (is_made_here_) {
      Gpu::free(data_);
    } else {
      Gpu::close(data_);
    }
  }
  SharedDeviceMemory(SharedDeviceMemory const&) = delete;
  SharedDeviceMemory& operator=(SharedDeviceMemory const&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return size_; }

  std::string handle() const {
    auto const bytes = [](auto const& value) {
      return std::string_view(reinterpret_cast<char const*>(&value), sizeof(value));
    };
    return hexadecimal(bytes(size_)) + hexadecimal(bytes(seal_)) + hexadecimal(bytes(memory_));
  }

private:
  using Gpu = detail::GpuSharing;
  using Seal = std::array<std::uint64_t, 2>; ///< a random number behind the memory, which tells it from others

  static constexpr std::size_t page = std::size_t{1} << 21U;

  std::byte* behind() const { return data() + size_; }

  void read_handle(std::string const& text) {
    auto const bytes = from_hexadecimal(text);
    if (bytes.size() != sizeof(size_) + sizeof(seal_) + sizeof(memory_))
      throw ResourceError("'" + text + "' is no handle of memory of a GPU");
    std::size_t place = 0;
    auto const take = [&](auto& value) {
      std::memcpy(&value, bytes.data() + place, sizeof(value));
      place += sizeof(value);
    };
    take(size_);
    take(seal_);
    take(memory_);
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
  Seal seal_{};
  Gpu::Handle memory_{};
  bool is_made_here_ = false;
};

#endif

} // namespace varve
