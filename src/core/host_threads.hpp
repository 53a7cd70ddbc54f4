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

/// Number of host threads for reading, writing and preparing: the number of processors that this process may use, those
/// of the calling thread's affinity mask and of allow_processors().
std::size_t num_host_threads();

/// Names processors, by their numbers in affinity masks, that threads of num_host_threads() may use besides those of
/// the thread that starts them. OpenMP may have bound that one to a single processor (OMP_PROC_BIND), which new threads
/// would inherit. To be called before there are such threads.
void allow_processors(std::vector<int> const& numbers);

/// To be called by a new thread first: lets it run on all processors of allow_processors() as well.
void use_allowed_processors();

/// Other threads that help the calling one with some work: those of the process's pool of num_host_threads() - 1 that
/// are idle, which wait for the next work afterwards. So a call costs no new thread, and calls of several threads at a
/// time do not start more threads than there are processors. In a child process after fork() nobody helps.
class HostHelpers {
public:
  /// Up to `most` threads call work(), each once, as soon as they are idle: perhaps none of them ever is. It must not
  /// throw.
  HostHelpers(std::size_t most, std::function<void()> work);
  /// end()
  ~HostHelpers();
  HostHelpers(HostHelpers const&) = delete;
  HostHelpers& operator=(HostHelpers const&) = delete;

  /// Calls of work() that have not begun are given up; returns when the others are over.
  void end();

private:
  friend class HostThreadPool;

  std::function<void()> work_;
  std::size_t num_wanted_ = 0;
  std::size_t num_at_work_ = 0;
  std::condition_variable is_over_;
};

/// To be called by a thread that does work of its own beside others: its calls of for_each_on_host_threads() get no
/// help from now on.
void work_without_helpers();

/// Calls work(0) ... work(count - 1) on the calling thread and HostHelpers, together up to num_host_threads(), each
/// index exactly once, in any order, and returns when all calls are done. If calls throw, no further index is started
/// and the exception of the lowest index is rethrown, so the error a user sees does not depend on timing.
void for_each_on_host_threads(std::size_t count, std::function<void(std::size_t)> const& work);

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
