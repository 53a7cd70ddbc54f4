#include "core/host_threads.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace varve {

std::size_t num_host_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    return static_cast<std::size_t>(std::max(1, CPU_COUNT(&allowed)));
  return std::max(1U, std::thread::hardware_concurrency());
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
  for (std::size_t t = 1; t < num_threads; ++t) threads.emplace_back(worker);
  worker();
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

} // namespace varve
