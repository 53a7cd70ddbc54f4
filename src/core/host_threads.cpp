#include "core/host_threads.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// The processors of allow_processors().
cpu_set_t& allowed_besides() {
  static cpu_set_t allowed = [] {
    cpu_set_t none;
    CPU_ZERO(&none);
    return none;
  }();
  return allowed;
}

/// The processors of the calling thread and those of allow_processors(); empty if the system does not report them.
cpu_set_t allowed_processors() {
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof(own), &own) != 0) CPU_ZERO(&own);
  cpu_set_t all;
  CPU_OR(&all, &own, &allowed_besides());
  return all;
}

} // namespace

std::size_t num_host_threads() {
  auto const allowed = allowed_processors();
  auto const number = CPU_COUNT(&allowed);
  return number > 0 ? static_cast<std::size_t>(number) : std::max(1U, std::thread::hardware_concurrency());
}

void allow_processors(std::vector<int> const& numbers) {
  for (int const number : numbers)
    if (number >= 0 && number < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(number), &allowed_besides());
}

void use_allowed_processors() {
  if (CPU_COUNT(&allowed_besides()) == 0) return;
  auto const allowed = allowed_processors();
  sched_setaffinity(0, sizeof(allowed), &allowed); // if the system refuses, the affinity stays as it is
}

namespace {

/// Work with which other threads shall help the calling one.
struct HelpWanted {
  std::function<void()> work;
  std::size_t num_wanted = 0; ///< threads that may still begin it
  std::size_t num_at_work = 0;
  std::condition_variable is_over = {};
};

/// Threads that wait for work. They start when first needed, and run until the process ends.
class HostThreadPool {
public:
  /// Never destroyed: its threads may still wait while static objects are destroyed.
  static HostThreadPool& of_process() {
    static auto& pool = *new HostThreadPool;
    return pool;
  }

  /// Up to help.num_wanted idle threads call help.work(), each once; possibly none does. It must not throw.
  void offer(HelpWanted& help) {
    if (help.num_wanted == 0 || getpid() != process_) return; // a child of fork() has none of the threads
    {
      std::lock_guard const lock(guard_);
      open_.push_back(&help);
      num_wanted_ += help.num_wanted;
      start_threads();
    }
    is_offered_.notify_one();
  }

  /// Cancels calls that have not begun; returns when the others are complete.
  void withdraw(HelpWanted& help) {
    if (getpid() != process_) return;
    std::unique_lock lock(guard_);
    if (std::erase(open_, &help) > 0) num_wanted_ -= help.num_wanted;
    help.is_over.wait(lock, [&] { return help.num_at_work == 0; });
  }

private:
  /// Starts the threads that are wanted and not idle, up to the number of processors. The caller must hold the guard.
  void start_threads() {
    std::size_t const most = num_host_threads() - 1;
    try {
      for (; num_idle_ < num_wanted_ && num_threads_ < most; ++num_threads_, ++num_idle_)
        std::thread([this] { serve(); }).detach();
    } catch (std::exception const&) { // the system grants no more threads or no memory for them
    }
  }

  [[noreturn]] void serve() {
    use_allowed_processors();
    for (std::unique_lock lock(guard_);;) {
      is_offered_.wait(lock, [&] { return !open_.empty(); });
      auto& help = *open_.front();
      --num_wanted_;
      if (--help.num_wanted == 0) open_.pop_front();
      ++help.num_at_work;
      --num_idle_;
      bool const are_more_wanted = !open_.empty();
      lock.unlock();
      if (are_more_wanted) is_offered_.notify_one(); // each wakes the next one: waking takes longer than much work
      help.work();
      lock.lock();
      ++num_idle_;
      if (--help.num_at_work == 0) help.is_over.notify_all();
    }
  }

  pid_t const process_ = getpid();
  std::mutex guard_;
  std::condition_variable is_offered_;
  std::deque<HelpWanted*> open_; ///< work that wants more threads
  std::size_t num_wanted_ = 0;   ///< total over all of them
  std::size_t num_threads_ = 0;
  std::size_t num_idle_ = 0;
};

thread_local bool works_without_helpers = false;

} // namespace

void work_without_helpers() { works_without_helpers = true; }

void for_each_on_host_threads(std::size_t count, std::function<void(std::size_t)> const& work) {
  if (count == 0) return;
  std::atomic<std::size_t> next{0};
  std::mutex failure_guard;
  std::exception_ptr failure;
  std::atomic<std::size_t> failed_index{count};

  auto const worker = [&] {
    // Indices are assigned in ascending order, so every index below a failed one has been started and will finish.
    for (std::size_t index = next++; index < count && index < failed_index; index = next++) {
      try {
        work(index);
      } catch (...) {
        std::lock_guard const lock(failure_guard);
        if (index < failed_index) {
          failed_index = index;
          failure = std::current_exception();
        }
      }
    }
  };

  auto& pool = HostThreadPool::of_process();
  HelpWanted help{worker, works_without_helpers ? 0 : std::min(count, num_host_threads()) - 1};
  pool.offer(help);
  worker();
  pool.withdraw(help);
  if (failure) std::rethrow_exception(failure);
}

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
