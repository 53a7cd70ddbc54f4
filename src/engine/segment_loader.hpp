#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace varve {

/// Loads segments on a thread of its own, ahead of one thread that uses them, cyclically: 0, 1, ..., num_segments - 1,
/// 0, 1, ... Segment i goes to buffer i % num_buffers as soon as that buffer is free.
class SegmentLoader {
public:
  /// The loader's thread calls load(i); after a load that throws it loads nothing more.
  SegmentLoader(std::size_t num_segments, std::size_t num_buffers, std::function<void(std::size_t)> load);
  ~SegmentLoader(); ///< waits for a load that is running
  SegmentLoader(SegmentLoader const&) = delete;
  SegmentLoader& operator=(SegmentLoader const&) = delete;

  /// Waits until the segment, which must be the next in order, is loaded. Throws what its load threw.
  void acquire(std::size_t segment);

  /// Allows the loader to overwrite the buffer of the segment.
  void release(std::size_t segment);

  /// Makes segment 0 the next one. No segment may be in use.
  void rewind();

private:
  void load_all();
  bool is_buffer_free(std::size_t segment) const;

  std::size_t num_buffers_;
  std::function<void(std::size_t)> load_;
  std::mutex guard_; ///< guards all members below
  std::condition_variable changed_;
  std::vector<bool> is_loaded_;
  std::size_t next_to_load_ = 0;
  std::size_t next_to_use_ = 0;
  std::size_t num_rewinds_ = 0; ///< calls of rewind(); a load that began before the last one is discarded
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace varve
