#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace varve {

/// Host memory for the columns of samples on their way to a device, in blocks that are used again: fresh memory takes
/// longer to get than samples take to be copied. The engine that computes gives it (Inference::sample_memory), readers
/// fill it. Any thread may use it. An object is held by shared pointers; blocks keep it alive.
class SampleMemory : public std::enable_shared_from_this<SampleMemory> {
public:
  /// How to get and return bytes. `allocate` returns null or throws std::bad_alloc if there are none.
  struct Source {
    std::function<void*(std::size_t)> allocate;
    std::function<void(void*)> free;
  };

  /// `is_narrow`: the device takes columns below 65536 in 16 bits; otherwise all in 32.
  SampleMemory(Source source, bool is_narrow);
  ~SampleMemory();
  SampleMemory(SampleMemory const&) = delete;
  SampleMemory& operator=(SampleMemory const&) = delete;

  bool is_narrow() const { return is_narrow_; }

  /// A block of at least so many bytes, not initialised, which returns here when its last owner lets go. Null if there
  /// is no such memory.
  std::shared_ptr<void> take(std::size_t bytes);

private:
  struct Block {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  Block allocate(std::size_t bytes) const;
  Block reuse(std::size_t bytes);
  void give_back(Block block);

  Source source_;
  bool is_narrow_;
  std::mutex guard_;
  std::vector<Block> free_; ///< blocks that nobody uses
};

} // namespace varve
