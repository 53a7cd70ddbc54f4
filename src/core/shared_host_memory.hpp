#pragma once

#include "core/device_memory.hpp"

#include <cstddef>
#include <string>

namespace varve {

/// Host memory that other processes of this machine can open by its handle: an anonymous file in memory (memfd), which
/// occupies only the pages that were written. It exists until all processes have closed it. (A shared window of MPI is
/// in /dev/shm, which containers often limit to 64 MB.)
class SharedHostMemory final : public PeerMemory {
public:
  /// Zero-initialized memory. Throws ResourceError if the system grants none.
  explicit SharedHostMemory(std::size_t bytes);

  /// The memory of a handle. Throws ResourceError, naming the reason, if it cannot be opened or is other memory, which
  /// happens if processes have different views of the machine.
  explicit SharedHostMemory(std::string const& handle);
  ~SharedHostMemory() override;

  std::byte* data() const override { return data_; } ///< aligned to a page
  std::size_t size() const override { return size_; }
  std::string handle() const override { return handle_; }

private:
  void map();

  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string handle_;
};

} // namespace varve
