#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace varve {

/// One other thread, which does jobs in the order in which they were added. If the system grants no thread, add() does
/// them. One thread owns the object and calls its functions.
class JobThread {
public:
  using Job = std::function<void()>;

  JobThread();
  /// Waits for the job that has begun. Jobs that have not are forgotten.
  ~JobThread();
  JobThread(JobThread const&) = delete;
  JobThread& operator=(JobThread const&) = delete;

  /// Returns the number of the job, from 1 on. After a job that threw no other is done.
  std::uint64_t add(Job job);

  /// Returns when all jobs up to this number are done. Throws what the first of them that failed threw.
  void await(std::uint64_t number);

  /// The number of the last job that was added; 0 if there is none.
  std::uint64_t last() const { return num_added_; }

private:
  void work();

  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::uint64_t num_added_ = 0;
  std::uint64_t num_done_ = 0;
  std::exception_ptr failure_;
  bool is_closed_ = false;
  std::thread thread_;
};

} // namespace varve
