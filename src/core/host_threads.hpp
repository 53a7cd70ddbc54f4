#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
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

} // namespace varve
