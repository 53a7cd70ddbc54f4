#include "core/host_threads.hpp"

#include <gtest/gtest.h>

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace varve {
namespace {

std::vector<int> processors_of_this_thread() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  std::vector<int> numbers;
  for (int number = 0; number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(static_cast<std::size_t>(number), &mask)) numbers.push_back(number);
  return numbers;
}

void bind_to(int number) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<std::size_t>(number), &mask);
  ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
}

TEST(HostThreads, UseAllProcessorsThoughTheFirstThreadIsBound) {
  auto const all = processors_of_this_thread();
  bind_to(all.back());
  allow_processors(all); // as Runtime has done already if OpenMP has places of its own
  EXPECT_EQ(num_host_threads(), all.size());
  if (all.size() == 1) return; // then there is no other thread to look at
  EXPECT_EQ(processors_of_this_thread(), std::vector<int>{all.back()}) << "the first thread stays where it is";
  auto const first = std::this_thread::get_id();
  std::atomic<int> others{0};
  for_each_on_host_threads(2, [&](std::size_t /*index*/) {
    if (std::this_thread::get_id() != first) {
      EXPECT_EQ(processors_of_this_thread(), all);
      ++others;
    } else { // until the other thread has taken its part
      auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (others == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
  });
  EXPECT_GE(others.load(), 1);
}

} // namespace
} // namespace varve
