#include "distribute/batch_queue.hpp"

#include "core/stopwatch.hpp"
#include "io/files.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

class Queue : public ::testing::Test {
protected:
  Communicator const ranks_;

  /// Takes all batches, each as if it were run at a speed of this rank's own; the ranges of all ranks, in order.
  std::vector<SampleRange> take_all(std::vector<SampleRange> const& ranges, BatchRules const& rules) const {
    BatchQueue queue(ranks_, ranges, rules);
    std::vector<std::uint64_t> bounds;
    double const speed = 1000.0 * (1 + ranks_.rank());
    while (auto const range = queue.next()) {
      bounds.insert(bounds.end(), {range->first, range->second});
      auto const size = range->second - range->first;
      EXPECT_LE(size, std::max(rules.most, rules.grain));
      queue.finished(size, static_cast<double>(size) / speed);
    }
    auto const all = ranks_.gather_everywhere(bounds);
    std::vector<SampleRange> taken;
    for (std::size_t place = 0; place < all.size(); place += 2) taken.emplace_back(all[place], all[place + 1]);
    std::ranges::sort(taken);
    return taken;
  }
};

/// Every sample of the ranges, in order.
std::vector<SampleIndex> samples_of_ranges(std::vector<SampleRange> const& ranges) {
  std::vector<SampleIndex> samples;
  for (auto const& [first, last] : ranges)
    for (auto sample = first; sample < last; ++sample) samples.push_back(sample);
  return samples;
}

TEST_F(Queue, HandsOutEverySampleOnce) {
  for (auto const schedule : {Schedule::fixed, Schedule::dynamic}) {
    for (SampleIndex const num_samples : {0U, 1U, 2U, 3U, 5U, 64U, 99U, 1000U, 5003U}) {
      for (SampleIndex const grain : {SampleIndex(1), SampleIndex(7), SampleIndex(64), grain_of(num_samples)}) {
        for (bool const one_grain : {false, true}) {
          for (SampleIndex const most : {1U, 50U, 100000U}) {
            BatchRules const rules{schedule, grain, one_grain, most, 10.0};
            auto const all = left_over(num_samples, {});
            ASSERT_EQ(samples_of_ranges(take_all(all, rules)), samples_of_ranges(all))
                << to_string(schedule) << " " << num_samples << " samples, grain " << grain << ", most " << most;
          }
        }
      }
    }
  }
}

TEST_F(Queue, HandsOutWhatAJournalLeft) {
  std::vector<SampleRange> const left = {{0, 10}, {30, 40}, {50, 100}, {100, 103}};
  for (auto const schedule : {Schedule::fixed, Schedule::dynamic}) {
    for (SampleIndex const most : {10U, 1000U}) {
      auto const taken = take_all(left, {schedule, 10, false, most, {}});
      EXPECT_EQ(samples_of_ranges(taken), samples_of_ranges(left));
      for (auto const& [first, last] : taken) EXPECT_EQ(first % 10, 0U) << last;
    }
  }
}

TEST_F(Queue, BeginsBatchesAtGrainsWhateverTheRanks) {
  for (auto const schedule : {Schedule::fixed, Schedule::dynamic}) {
    for (auto const& [first, last] : take_all({{0, 1003}}, {schedule, 8, false, 100, 10.0})) {
      EXPECT_EQ(first % 8, 0U);
      EXPECT_TRUE(last % 8 == 0 || last == 1003U);
    }
  }
}

TEST_F(Queue, OfAStaticScheduleGivesEqualParts) {
  BatchQueue queue(ranks_, {{0, 1200}}, {Schedule::fixed, 1, false, 10000, {}});
  auto const range = queue.next();
  ASSERT_TRUE(range);
  auto const [first, last] = static_part(1200, ranks_.rank(), ranks_.size());
  EXPECT_EQ(*range, SampleRange(first, last));
  EXPECT_FALSE(queue.next());
}

TEST_F(Queue, OfAlikeRanksGivesEachOneBatchWhereMoreWouldBeTooSmall) {
  BatchRules rules{Schedule::dynamic, 64, false, 60000, 10.0};
  rules.least = 60000;
  rules.are_alike = true;
  BatchQueue queue(ranks_, {{0, 60000}}, rules);
  auto const range = queue.next();
  ASSERT_TRUE(range);
  EXPECT_LE(range->second - range->first, 60000U / static_cast<SampleIndex>(ranks_.size()) + 64);
  ranks_.together([] {}); // all have taken one
  EXPECT_FALSE(queue.next());
  EXPECT_EQ(ranks_.sum(range->second - range->first), 60000U);
}

TEST_F(Queue, OfRanksThatWorkTogetherGivesAllTheSameBatches) {
  std::vector<SampleRange> const left = {{0, 10}, {30, 40}, {50, 103}};
  for (bool const one_grain : {false, true}) {
    for (SampleIndex const most : {1U, 20U, 1000U}) {
      for (std::optional<double> const max_seconds : {std::optional<double>(), std::optional<double>(0.01)}) {
        auto const taken = take_all(left, {Schedule::together, 10, one_grain, most, max_seconds});
        std::vector<SampleRange> batches; // each was taken by every rank
        for (std::size_t place = 0; place < taken.size(); ++place) {
          if (place % static_cast<std::size_t>(ranks_.size()) == 0) batches.push_back(taken[place]);
          EXPECT_EQ(taken[place], batches.back());
        }
        EXPECT_EQ(samples_of_ranges(batches), samples_of_ranges(left));
      }
    }
  }
}

/// Without crumbs, though the last sample is in the middle of a grain.
TEST_F(Queue, OfAStaticScheduleGivesAllThatFitsAtOnce) {
  BatchRules const rules{Schedule::fixed, 64, false, 60000, std::nullopt};
  EXPECT_EQ(take_all(left_over(60000, {}), rules).size(), static_cast<std::size_t>(ranks_.size()));
}

TEST_F(Queue, LetsARankLookAheadWhereItHurtsNobody) {
  auto const expect_unfinished = [&](BatchRules const& rules, std::size_t before_the_first, std::size_t later) {
    BatchQueue queue(ranks_, {{0, 100000}}, rules);
    for (std::size_t const most : {before_the_first, later}) {
      std::vector<SampleRange> taken;
      for (; queue.may_look_ahead(); taken.push_back(*queue.next())) ASSERT_LT(taken.size(), 4U);
      EXPECT_EQ(taken.size(), most) << to_string(rules.schedule);
      for (auto const& [first, last] : taken) queue.finished(last - first, 0.001);
      EXPECT_TRUE(queue.may_look_ahead());
    }
  };
  expect_unfinished({Schedule::fixed, 10, true, 10, {}}, 3, 3);
  expect_unfinished({Schedule::fixed, 10, false, 10, {}}, 3, 3);
  expect_unfinished({Schedule::fixed, 10, true, 10, 10.0}, 3, 3);
  expect_unfinished({Schedule::fixed, 10, false, 10, 10.0}, 1,
                    3); // the next size depends on the time of the first
  expect_unfinished({Schedule::dynamic, 10, true, 10, 10.0}, 1, ranks_.size() == 1 ? 3 : 2);
  BatchRules alike{Schedule::dynamic, 10, false, 10, 10.0};
  alike.are_alike = true; // their first sizes need no speed
  expect_unfinished(alike, ranks_.size() == 1 ? 3 : 2, ranks_.size() == 1 ? 3 : 2);
  expect_unfinished({Schedule::together, 10, true, 10, {}}, 3, 3);
}

TEST_F(Queue, EndsForAllWhenOneStopsIt) {
  for (auto const schedule : {Schedule::fixed, Schedule::dynamic, Schedule::together}) {
    BatchQueue queue(ranks_, {{0, 1000}}, {schedule, 1, true, 1, {}});
    EXPECT_TRUE(queue.next());
    ranks_.together([] {}); // all have taken one
    if (ranks_.rank() + 1 == ranks_.size()) queue.stop();
    ranks_.together([] {});
    EXPECT_FALSE(queue.next());
  }
}

TEST_F(Queue, KeepsTheLastRankHoweverSlow) {
  // Each rank in turn calls itself far too slow; what is left is taken by somebody all the same.
  BatchQueue queue(ranks_, {{0, 500}}, {Schedule::dynamic, 1, false, 1000, 10.0});
  std::uint64_t taken = 0;
  while (auto const range = queue.next()) {
    taken += range->second - range->first;
    queue.finished(1, taken % 2 == 0 ? 1e6 : 1e-6);
  }
  EXPECT_EQ(ranks_.sum(taken), 500U);
}

TEST_F(Queue, CountersMoveWhileRank0IsOutsideMpi) {
  constexpr std::uint64_t num_steps = 100;
  using varve::test::TemporaryFolder;
  auto const folder = ranks_.is_root() ? std::make_unique<TemporaryFolder>() : nullptr;
  std::filesystem::path const path = ranks_.broadcast(folder ? folder->path().string() : "");
  SharedWords counters(ranks_, 1);
  if (ranks_.is_root()) {
    Stopwatch const time; // the others say by files, not through MPI, that they are done
    while (folder->num_entries() + 1 < ranks_.size() && time.seconds() < 20.0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(folder->num_entries() + 1, ranks_.size());
  } else {
    for (std::uint64_t step = 0; step < num_steps; ++step) counters.add(0, 1);
    varve::test::write_bytes(path / std::to_string(ranks_.rank()), "");
  }
  ranks_.together([] {});
  EXPECT_EQ(counters.read(0), num_steps * static_cast<std::uint64_t>(ranks_.size() - 1));
}

TEST_F(Queue, CountersAddAndSubtract) {
  SharedWords counters(ranks_, 3);
  auto const size = static_cast<std::uint64_t>(ranks_.size());
  counters.add(1, 5);
  counters.add(2, ~std::uint64_t{0});
  ranks_.together([] {});
  EXPECT_EQ(counters.read(0), 0U);
  EXPECT_EQ(counters.read(1), 5 * size);
  EXPECT_EQ(counters.read(2), ~std::uint64_t{0} * size);
}

} // namespace
} // namespace varve
