#pragma once

#include "core/device_memory.hpp"
#include "core/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <system_error>

namespace varve {

/// Host memory that other processes of this machine can open by its handle: an anonymous file in memory (memfd), which
/// occupies only the pages that were written. It exists until all processes have closed it. (A shared window of MPI is
/// in /dev/shm, which containers often limit to 64 MB.)
class SharedHostMemory final : public PeerMemory {
public:
  /// Zero-initialized memory. Throws ResourceError if the system grants none.
  explicit SharedHostMemory(std::size_t bytes) : size_((bytes + sizeof(Seal) - 1) / sizeof(Seal) * sizeof(Seal)) {
    file_ = memfd_create("varve", MFD_CLOEXEC);
    if (file_ < 0) fail("the system grants no memory that processes can share", errno);
    if (ftruncate(file_, static_cast<off_t>(size_ + sizeof(Seal))) != 0)
      fail("the system grants no " + std::to_string(size_) + " bytes that processes can share", errno);
    map();
    std::random_device random;
    auto const word = [&] { return (std::uint64_t{random()} << 32U) | random(); };
    Seal const seal = {word(), word()};
    std::memcpy(data_ + size_, seal.data(), sizeof(seal));
    std::ostringstream text;
    text << getpid() << ' ' << file_ << ' ' << size_ << ' ' << seal[0] << ' ' << seal[1];
    handle_ = text.str();
  }

  /// The memory of a handle. Throws ResourceError, naming the reason, if it cannot be opened or is other memory, which
  /// happens if processes have different views of the machine.
  explicit SharedHostMemory(std::string const& handle) : handle_(handle) {
    std::istringstream text(handle);
    std::int64_t process = 0;
    int number = 0;
    Seal seal{};
    text >> process >> number >> size_ >> seal[0] >> seal[1];
    if (!text) throw ResourceError("'" + handle + "' is no handle of shared memory");
    auto const memory = "the memory of process " + std::to_string(process);
    auto const path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
    file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file_ < 0) fail(memory + " is closed", errno);
    bool const has_size = lseek(file_, 0, SEEK_END) == static_cast<off_t>(size_ + sizeof(Seal));
    if (has_size) map();
    if (has_size && std::memcmp(data_ + size_, seal.data(), sizeof(seal)) == 0) return;
    release();
    throw ResourceError(memory + " is another one");
  }
  ~SharedHostMemory() override { release(); }

  std::byte* data() const override { return data_; } ///< aligned to a page
  std::size_t size() const override { return size_; }
  std::string handle() const override { return handle_; }

private:
  using Seal = std::array<std::uint64_t, 2>; ///< a random number after the memory, by which it is known

  void map() {
    auto const bytes = size_ + sizeof(Seal);
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (mapped == MAP_FAILED)
      fail("the system maps no " + std::to_string(bytes) + " bytes that processes share", errno);
    madvise(mapped, bytes, MADV_HUGEPAGE); // takes effect if huge pages are enabled for madvise
    data_ = static_cast<std::byte*>(mapped);
  }

  void release() const {
    if (data_ != nullptr) munmap(data_, size_ + sizeof(Seal));
    if (file_ >= 0) close(file_);
  }

  [[noreturn]] void fail(std::string const& what, int error) const {
    release();
    throw ResourceError(what + ": " + std::generic_category().message(error));
  }

  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string handle_;
};

} // namespace varve
