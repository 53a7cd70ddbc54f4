#include "products/job_thread.hpp"

#include <gtest/gtest.h>

#include <atomic>
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

} // namespace
} // namespace varve
