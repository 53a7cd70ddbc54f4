#pragma once

#include "core/device_memory.hpp"

#include <cstddef>
#include <string>

namespace varve {

/// Host memory that other processes of this machine can open by its handle: a nameless file in memory (memfd), of which
/// a process takes only the pages that were written. It lives until all who made or opened it have let it go. (A
/// shared window of MPI lies in /dev/shm, which containers often bound to 64 MB.)
class SharedHostMemory final : public PeerMemory {
public:
  /// Memory of zeros. Throws ResourceError if the system grants none.
  explicit SharedHostMemory(std::size_t bytes);

  /// The memory of a handle. Throws ResourceError, saying why, if it cannot be opened or is not that of the handle, as
  /// may be where processes have separate views of the machine.
  explicit SharedHostMemory(std::string const& handle);
  ~SharedHostMemory() override;

  std::byte* data() const override { return data_; } ///< aligned for a page
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
