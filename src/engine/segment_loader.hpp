#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace varve {

/// Loads segments 0, 1, ... and from the last one on again 0, 1, ... into buffers, the i-th into buffer i %
/// num_buffers, each as soon as the buffer is free: on a thread of its own, ahead of the one thread that uses them in
/// this order.
class SegmentLoader {
public:
  /// `load(i)` is called on the other thread; one that throws is the last.
  SegmentLoader(std::size_t num_segments, std::size_t num_buffers, std::function<void(std::size_t)> load);
  ~SegmentLoader(); ///< waits for a load that has begun
  SegmentLoader(SegmentLoader const&) = delete;
  SegmentLoader& operator=(SegmentLoader const&) = delete;

  /// Waits until the segment, which must be the next in order, is loaded. Throws what its load threw.
  void acquire(std::size_t segment);

  /// The buffer of the segment may be overwritten.
  void release(std::size_t segment);

  /// Segment 0 is the next one in any case. None may be in use.
  void rewind();

private:
  void load_all();
  bool is_buffer_free(std::size_t segment) const;

  std::size_t num_buffers_;
  std::function<void(std::size_t)> load_;
  std::mutex guard_; ///< of all that follows
  std::condition_variable changed_;
  std::vector<bool> is_loaded_;
  std::size_t next_to_load_ = 0;
  std::size_t next_to_use_ = 0;
  std::size_t num_rewinds_ = 0; ///< what was begun before the last one does not count
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace varve
