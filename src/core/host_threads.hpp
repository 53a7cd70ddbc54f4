#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace varve {

/// Number of host threads for reading, writing and preparing: the number of processors that this process may use, from
/// the calling thread's affinity mask and allow_processors().
std::size_t num_host_threads();

/// Adds processors, by their numbers in affinity masks, that threads of num_host_threads() may use besides those of the
/// thread that starts them. OpenMP may have bound the starting thread to a single processor (OMP_PROC_BIND), which new
/// threads would inherit. Call before such threads start.
void allow_processors(std::vector<int> const& numbers);

/// Call first in a new thread: lets it run on the processors of allow_processors() as well.
void use_allowed_processors();

/// Call in a thread that runs its own work beside others: its calls of for_each_on_host_threads() then get no helpers.
void work_without_helpers();

/// Calls work(0) ... work(count - 1) on the calling thread and on idle threads of the process's pool of
/// num_host_threads() - 1, each index exactly once, in any order, and returns when all calls are complete. If calls
/// throw, no further index is started and the exception of the lowest index is rethrown, so the reported error does not
/// depend on timing. A call starts no thread once the pool has its threads, and concurrent calls use no more threads
/// than there are processors. After fork() a child process has no pool.
void for_each_on_host_threads(std::size_t count, std::function<void(std::size_t)> const& work);

/// A thread that runs jobs in the order in which they were added. If the system grants no thread, add() runs them. One
/// thread owns the object and calls its functions.
class JobThread {
public:
  using Job = std::function<void()>;

  JobThread();
  /// Waits for the job that has begun. Discards jobs that have not.
  ~JobThread();
  JobThread(JobThread const&) = delete;
  JobThread& operator=(JobThread const&) = delete;

  /// Returns the number of the job, from 1 on. After a job that threw no other job runs.
  std::uint64_t add(Job job);

  /// Returns when all jobs up to this number are complete. Rethrows the exception of the first one that failed.
  void await(std::uint64_t number);

  /// Discards the jobs that have not begun. A job that has begun continues, and ends before any other begins.
  void forget();

  /// The number of the last job that was added and not discarded; 0 if there is none.
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

/// Fills the buffers of a ring in order, on another thread, ahead of the thread that uses them. One thread owns the
/// object and calls its functions.
class LoadAhead {
public:
  /// Fills the buffer of this number; runs on the other thread.
  using Load = std::function<void(std::size_t buffer)>;

  explicit LoadAhead(std::size_t num_buffers) : num_buffers_(num_buffers) {}

  /// Requests a load, after earlier requests. It begins when its buffer is free.
  void want(Load load);

  /// Waits for the first requested load that was not given back, and returns its buffer. Rethrows the exception of the
  /// load; no load follows one that threw.
  std::size_t next();

  /// Releases the buffer of next(), so that it can be filled again.
  void give_back();

  /// Discards all loads that were not given back. A load that has begun continues, and ends before any other begins.
  /// The next load fills buffer 0.
  void forget();

private:
  std::size_t buffer_of(std::uint64_t load) const { return static_cast<std::size_t>((load - first_) % num_buffers_); }
  void begin_loads();

  std::size_t num_buffers_;
  std::deque<Load> wanted_;          ///< loads that have not begun
  std::uint64_t first_ = 0;          ///< number of the load that first filled buffer 0
  std::uint64_t num_given_back_ = 0; ///< loads given back or discarded
  JobThread jobs_;                   ///< job n + 1 is load n
};

} // namespace varve
