#include "engine/segment_loader.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <utility>

namespace varve {

SegmentLoader::SegmentLoader(std::size_t num_segments, std::size_t num_buffers, std::function<void(std::size_t)> load)
    : num_buffers_(num_buffers), load_(std::move(load)), is_loaded_(num_segments, false) {
  VARVE_REQUIRE(num_segments > 0 && num_buffers > 0, "a loader of nothing");
  thread_ = std::thread([this] {
    use_allowed_processors();
    load_all();
  });
}

SegmentLoader::~SegmentLoader() {
  {
    std::lock_guard const lock(guard_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool SegmentLoader::is_buffer_free(std::size_t segment) const {
  for (std::size_t other = segment % num_buffers_; other < is_loaded_.size(); other += num_buffers_) {
    if (is_loaded_[other]) return false;
  }
  return true;
}

void SegmentLoader::load_all() {
  std::unique_lock lock(guard_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || is_buffer_free(next_to_load_); });
    if (ends_) return;
    std::size_t const segment = next_to_load_;
    std::size_t const rewinds = num_rewinds_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      load_(segment);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      failure_ = failure;
      changed_.notify_all();
      return;
    }
    if (rewinds != num_rewinds_) continue;
    is_loaded_[segment] = true;
    next_to_load_ = (segment + 1) % is_loaded_.size();
    changed_.notify_all();
  }
}

void SegmentLoader::acquire(std::size_t segment) {
  std::unique_lock lock(guard_);
  VARVE_REQUIRE(segment == next_to_use_, "a segment out of turn");
  changed_.wait(lock, [&] { return is_loaded_[segment] || failure_; });
  if (!is_loaded_[segment]) std::rethrow_exception(failure_);
  next_to_use_ = (segment + 1) % is_loaded_.size();
}

void SegmentLoader::release(std::size_t segment) {
  {
    std::lock_guard const lock(guard_);
    is_loaded_[segment] = false;
  }
  changed_.notify_all();
}

void SegmentLoader::rewind() {
  {
    std::lock_guard const lock(guard_);
    if (next_to_use_ == 0) return; // segment 0 is the next one already
    next_to_use_ = next_to_load_ = 0;
    is_loaded_.assign(is_loaded_.size(), false);
    ++num_rewinds_;
  }
  changed_.notify_all();
}

} // namespace varve
