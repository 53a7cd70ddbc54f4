#include "core/job_thread.hpp"

#include "core/host_threads.hpp"

#include <system_error>
#include <utility>

namespace varve {

JobThread::JobThread() {
  try {
    thread_ = std::thread([this] {
      use_allowed_processors();
      work();
    });
  } catch (std::system_error const&) { // the system grants no more threads
  }
}

JobThread::~JobThread() {
  {
    std::lock_guard const lock(guard_);
    is_closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::uint64_t JobThread::add(Job job) {
  if (!thread_.joinable()) {
    job();
    ++num_done_;
    return ++num_added_;
  }
  {
    std::lock_guard const lock(guard_);
    waiting_.push_back(std::move(job));
    ++num_added_;
  }
  changed_.notify_all();
  return num_added_;
}

void JobThread::await(std::uint64_t number) {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return num_done_ >= number || failure_; });
  if (num_done_ < number) std::rethrow_exception(failure_);
}

void JobThread::forget() {
  std::lock_guard const lock(guard_);
  num_added_ -= waiting_.size();
  waiting_.clear();
}

void JobThread::work() {
  for (std::unique_lock lock(guard_);;) {
    changed_.wait(lock, [&] { return !waiting_.empty() || is_closed_; });
    if (is_closed_) return;
    auto const job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      failure_ = failure;
      changed_.notify_all();
      return;
    }
    ++num_done_;
    changed_.notify_all();
  }
}

void LoadAhead::want(Load load) {
  wanted_.push_back(std::move(load));
  begin_loads();
}

std::size_t LoadAhead::next() {
  jobs_.await(num_given_back_ + 1);
  return buffer_of(num_given_back_);
}

void LoadAhead::give_back() {
  ++num_given_back_;
  begin_loads();
}

void LoadAhead::forget() {
  wanted_.clear();
  jobs_.forget();
  first_ = num_given_back_ = jobs_.last();
}

void LoadAhead::begin_loads() {
  for (; !wanted_.empty() && jobs_.last() < num_given_back_ + num_buffers_; wanted_.pop_front())
    jobs_.add([buffer = buffer_of(jobs_.last()), load = std::move(wanted_.front())] { load(buffer); });
}

} // namespace varve
