#include "core/host_threads.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
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

/// The processors of the calling thread and those of allow_processors(); none if the system does not tell.
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
  sched_setaffinity(0, sizeof(allowed), &allowed); // if the system refuses, the thread stays where it is
}

void for_each_on_host_threads(std::size_t count, std::function<void(std::size_t)> const& work) {
  std::atomic<std::size_t> next{0};
  std::mutex failure_guard;
  std::exception_ptr failure;
  std::atomic<std::size_t> failed_index{count};

  auto const worker = [&] {
    // Indices are handed out in ascending order, so every index below a failed one has been started and will finish.
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

  std::vector<std::jthread> threads;
  std::size_t const num_threads = std::min(count, num_host_threads());
  for (std::size_t t = 1; t < num_threads; ++t) {
    threads.emplace_back([&worker] {
      use_allowed_processors();
      worker();
    });
  }
  worker();
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

} // namespace varve
