#pragma once

#include <condition_variable>
#include <cstddef>
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

  /// Forgets the jobs that have not begun. One that has begun goes on, and ends before any other begins.
  void forget();

  /// The number of the last job that was added and not forgotten; 0 if there is none.
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

/// Fills the buffers of a ring, one after the other, by another thread ahead of the one that uses them. One thread owns
/// the object and calls its functions.
class LoadAhead {
public:
  /// Fills the buffer of this number, on the other thread.
  using Load = std::function<void(std::size_t buffer)>;

  explicit LoadAhead(std::size_t num_buffers) : num_buffers_(num_buffers) {}

  /// Asks for a load, after those that were asked for before. It begins when its buffer is free.
  void want(Load load);

  /// Waits for the first load that was asked for and not given back, and returns its buffer. Throws what the load
  /// threw; after a load that threw there is no other.
  std::size_t next();

  /// Allows to fill the buffer of next() again.
  void give_back();

  /// Forgets all loads that were not given back. One that has begun goes on, and ends before any other begins. The next
  /// one fills buffer 0.
  void forget();

private:
  std::size_t buffer_of(std::uint64_t load) const { return static_cast<std::size_t>((load - first_) % num_buffers_); }
  void begin_loads();

  std::size_t num_buffers_;
  std::deque<Load> wanted_;          ///< not begun
  std::uint64_t first_ = 0;          ///< the load that filled buffer 0 first
  std::uint64_t num_given_back_ = 0; ///< or forgotten
  JobThread jobs_;                   ///< job n + 1 is load n
};

} // namespace varve
