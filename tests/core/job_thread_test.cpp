#include "core/host_threads.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace varve {
namespace {

TEST(JobThreads, DoJobsInTheirOrderOnOneOtherThread) {
  std::vector<int> done;
  std::vector<std::thread::id> threads;
  JobThread jobs;
  EXPECT_EQ(jobs.last(), 0U);
  for (int number = 0; number < 100; ++number) {
    auto const job = jobs.add([&, number] {
      done.push_back(number);
      threads.push_back(std::this_thread::get_id());
    });
    EXPECT_EQ(job, static_cast<std::uint64_t>(number) + 1);
  }
  jobs.await(jobs.last());
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(done, expected);
  EXPECT_NE(threads.front(), std::this_thread::get_id());
  EXPECT_EQ(threads.front(), threads.back());
}

TEST(JobThreads, LetTheOwnerGoOnMeanwhile) {
  std::promise<void> ready;
  auto const is_ready = ready.get_future().share();
  JobThread jobs;
  auto const job = jobs.add([is_ready] { is_ready.wait(); }); // would never end if add() did it
  ready.set_value();
  jobs.await(job);
}

TEST(JobThreads, ThrowWhatAJobThrewToThoseWhoWaitForItAndDoNoMore) {
  std::atomic<int> num_done = 0;
  JobThread jobs;
  auto const first = jobs.add([&] { ++num_done; });
  auto const second = jobs.add([] { throw std::domain_error("enough"); });
  auto const third = jobs.add([&] { ++num_done; });
  EXPECT_THROW(jobs.await(third), std::domain_error);
  EXPECT_THROW(jobs.await(second), std::domain_error);
  EXPECT_NO_THROW(jobs.await(first));
  auto const fourth = jobs.add([&] { ++num_done; });
  EXPECT_THROW(jobs.await(fourth), std::domain_error);
  EXPECT_EQ(num_done, 1);
}

TEST(JobThreads, ForgetAtTheirEndWhatHasNotBegun) {
  std::atomic<int> num_done = 0;
  std::promise<void> begun;
  std::promise<void> closing;
  {
    JobThread jobs;
    jobs.add([&, is_closing = closing.get_future().share()] {
      begun.set_value();
      is_closing.wait();
      ++num_done;
    });
    for (int number = 0; number < 1000; ++number) {
      jobs.add([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++num_done;
      });
    }
    begun.get_future().wait();
    closing.set_value();
  }
  EXPECT_GE(num_done, 1);
  EXPECT_LT(num_done, 1000);
}

TEST(JobThreads, ForgetOnDemandWhatHasNotBegun) {
  std::promise<void> begun;
  std::promise<void> closing;
  std::vector<int> done;
  JobThread jobs;
  auto const first = jobs.add([&, is_closing = closing.get_future().share()] {
    begun.set_value();
    is_closing.wait();
    done.push_back(1);
  });
  jobs.add([&] { done.push_back(2); });
  begun.get_future().wait();
  jobs.forget();
  EXPECT_EQ(jobs.last(), first);
  auto const third = jobs.add([&] { done.push_back(3); });
  EXPECT_EQ(third, first + 1);
  closing.set_value();
  jobs.await(third);
  EXPECT_EQ(done, (std::vector<int>{1, 3}));
}

/// A ring of buffers that hold the number of their load.
class LoadsAhead : public ::testing::TestWithParam<std::size_t> {
protected:
  void want(LoadAhead& loads, int number) {
    loads.want([this, number](std::size_t buffer) {
      buffers_.at(buffer) = none; // half-written, until it is whole
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      buffers_.at(buffer) = number;
      ++num_loads_;
    });
  }
  void expect_next(LoadAhead& loads, int number, std::size_t buffer) {
    ASSERT_EQ(loads.next(), buffer);
    ASSERT_EQ(buffers_.at(buffer), number);
    std::this_thread::sleep_for(std::chrono::microseconds(number % 2 == 0 ? 200 : 0));
    ASSERT_EQ(buffers_.at(buffer), number) << "it was not given back";
    loads.give_back();
  }

  static constexpr int none = -1;
  std::array<std::atomic<int>, 8> buffers_{};
  std::atomic<std::size_t> num_loads_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Buffers, LoadsAhead, ::testing::Values(1, 2, 3, 5));

TEST_P(LoadsAhead, FillBuffersInTurns) {
  LoadAhead loads(GetParam());
  for (int number = 0; number < 20; ++number) want(loads, number);
  for (int number = 0; number < 20; ++number) expect_next(loads, number, static_cast<std::size_t>(number) % GetParam());
}

TEST_P(LoadsAhead, FillFreeBuffersOnly) {
  LoadAhead loads(GetParam());
  for (int number = 0; number < 8; ++number) want(loads, number);
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (num_loads_ < GetParam() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(num_loads_, GetParam());
}

TEST_P(LoadsAhead, BeginAgainWithTheFirstBuffer) {
  LoadAhead loads(GetParam());
  for (int used = 0; used < 7; ++used) {
    for (int number = 0; number < 7; ++number) want(loads, 10 * used + number);
    for (int number = 0; number < used; ++number)
      expect_next(loads, 10 * used + number, static_cast<std::size_t>(number) % GetParam());
    loads.forget();
  }
  want(loads, 99);
  expect_next(loads, 99, 0);
}

TEST_P(LoadsAhead, PassOnWhatALoadThrew) {
  LoadAhead loads(GetParam());
  want(loads, 0);
  loads.want([](std::size_t) { throw std::domain_error("the file is gone"); });
  expect_next(loads, 0, 0);
  EXPECT_THROW(loads.next(), std::domain_error);
  EXPECT_THROW(loads.next(), std::domain_error);
}

} // namespace
} // namespace varve
