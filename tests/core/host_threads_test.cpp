#include "core/host_threads.hpp"

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
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

TEST(HostThreads, StayForTheNextCall) {
  std::mutex guard;
  std::set<std::thread::id> threads;
  for (int call = 0; call < 200; ++call) {
    for_each_on_host_threads(2 * num_host_threads(), [&](std::size_t /*index*/) {
      std::lock_guard const lock(guard);
      threads.insert(std::this_thread::get_id());
    });
  }
  EXPECT_LE(threads.size(), num_host_threads());
}

/// Calls for_each_on_host_threads() on `count` indices, and again from each of them down to this depth. Returns how
/// many calls there were of the innermost work.
std::size_t nested(std::size_t count, int depth) {
  if (depth == 0) return 1;
  std::vector<std::size_t> calls(count);
  for_each_on_host_threads(count, [&](std::size_t index) { calls[index] += nested(count, depth - 1); });
  return std::accumulate(calls.begin(), calls.end(), std::size_t{0});
}

TEST(HostThreads, WorkForSeveralThreadsAndFromWithinWork) {
  std::vector<std::size_t> calls(8);
  {
    std::vector<std::jthread> callers;
    for (auto& number : calls) callers.emplace_back([&number] { number = nested(9, 3); });
  }
  EXPECT_EQ(calls, std::vector<std::size_t>(calls.size(), 729));
}

TEST(HostThreads, RethrowTheExceptionOfTheLowestIndex) {
  for (int call = 0; call < 100; ++call) {
    try {
      for_each_on_host_threads(50, [](std::size_t index) {
        if (index % 7 == 6) throw std::out_of_range(std::to_string(index));
      });
      ADD_FAILURE() << "no exception";
    } catch (std::out_of_range const& error) {
      EXPECT_STREQ(error.what(), "6");
    }
  }
}

TEST(HostThreads, AreNotWaitedForInAChildProcess) {
  for_each_on_host_threads(4, [](std::size_t /*index*/) {}); // now this process has threads, and the child has none
  auto const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> calls{0};
    for_each_on_host_threads(100, [&](std::size_t /*index*/) { ++calls; });
    _exit(calls == 100 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HostThreads, DoNotBeginAfterTheEnd) {
  std::atomic<bool> is_over = false;
  std::atomic<int> late = 0;
  for (int call = 0; call < 200; ++call) {
    is_over = false;
    for_each_on_host_threads(2 * num_host_threads(), [&](std::size_t /*index*/) {
      if (is_over) ++late;
    });
    is_over = true;
  }
  EXPECT_EQ(late, 0);
}

} // namespace
} // namespace varve
