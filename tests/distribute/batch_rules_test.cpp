#include "distribute/batch_queue.hpp"

#include "core/error.hpp"
#include "io/files.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace varve {
namespace {

using Ranges = std::vector<SampleRange>;

TEST(Grain, DependsOnTheNumberOfSamplesAlone) {
  EXPECT_EQ(grain_of(0), 1U);
  EXPECT_EQ(grain_of(1), 1U);
  EXPECT_EQ(grain_of(1024), 1U);
  EXPECT_EQ(grain_of(1025), 2U);
  EXPECT_EQ(grain_of(60000), 64U);
  EXPECT_EQ(grain_of(2000000), 1984U);
  EXPECT_EQ(grain_of(6000000), 4096U);
  for (SampleIndex num_samples = 1; num_samples < 1000000000; num_samples = num_samples * 3 + 1) {
    EXPECT_GE(grain_of(num_samples) * 1024, std::min<SampleIndex>(num_samples, 4096 * 1024));
    EXPECT_LE(grain_of(num_samples), 4096U);
    EXPECT_TRUE(num_samples <= 65536 || grain_of(num_samples) % 64 == 0);
  }
}

TEST(LeftOver, IsWhatLiesBetween) {
  EXPECT_EQ(left_over(10, {}), Ranges({{0, 10}}));
  EXPECT_EQ(left_over(0, {}), Ranges());
  EXPECT_EQ(left_over(10, {{0, 10}}), Ranges());
  EXPECT_EQ(left_over(10, {{8, 10}, {2, 4}, {0, 1}}), Ranges({{1, 2}, {4, 8}}));
  EXPECT_EQ(left_over(10, {{4, 6}, {2, 4}}), Ranges({{0, 2}, {6, 10}}));
}

TEST(LeftOver, RefusesWhatCannotBe) {
  for (auto const& finished : {Ranges{{0, 11}}, Ranges{{0, 5}, {4, 6}}, Ranges{{3, 4}, {3, 4}}, Ranges{{5, 3}}}) {
    varve::test::expect_holds(varve::test::sentence_of<InputError>([&] { left_over(10, finished); }),
                              "expected each of 10 samples once");
  }
}

TEST(Schedule, HasNames) {
  EXPECT_EQ(parse_schedule("static"), Schedule::fixed);
  EXPECT_EQ(parse_schedule("dynamic"), Schedule::dynamic);
  for (auto const schedule : {Schedule::fixed, Schedule::dynamic})
    EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
  EXPECT_THROW(parse_schedule("fixed"), UsageError);
}

TEST(NextBatchSize, IsOneGrainAtFirstAndWhereTheUserChoseIt) {
  BatchRules rules{.grain = 8, .most = 1000, .max_seconds = 10.0};
  EXPECT_EQ(next_batch_size({.remaining = 5000, .num_ranks = 2}, rules), 8U);
  rules.one_grain = true;
  EXPECT_EQ(next_batch_size({.remaining = 5000, .num_ranks = 2, .own_speed = 1e6, .last_batch = 8}, rules), 8U);
}

TEST(NextBatchSize, IsHalfOfTheShareBySpeed) {
  BatchRules const rules{.grain = 10, .most = 1000000, .max_seconds = 1e9};
  QueueState state{.remaining = 10000, .num_ranks = 2, .own_speed = 30, .known_speeds = 40, .num_known = 2};
  state.last_batch = 100000;
  EXPECT_EQ(next_batch_size(state, rules), 3750U); // half of this rank's share, which is three quarters
  state.own_speed = 10;
  EXPECT_EQ(next_batch_size(state, rules), 1250U);
  state.num_known = 1; // the other one is taken to be as fast
  state.known_speeds = 10;
  EXPECT_EQ(next_batch_size(state, rules), 2500U);
}

TEST(NextBatchSize, KeepsWithinBounds) {
  BatchRules const rules{.grain = 10, .most = 805, .max_seconds = 2.0};
  QueueState state{.remaining = 100000, .num_ranks = 2, .own_speed = 1e4, .known_speeds = 2e4, .num_known = 2};
  state.last_batch = 40;
  EXPECT_EQ(next_batch_size(state, rules), 160U); // four times the last
  state.last_batch = 10000;
  EXPECT_EQ(next_batch_size(state, rules), 800U); // whole grains of what fits
  state.own_speed = 35;
  EXPECT_EQ(next_batch_size(state, rules), 70U); // two seconds
  state.remaining = 20;
  EXPECT_EQ(next_batch_size(state, rules), 10U); // one grain at least
  state.own_speed = 1e4;
  EXPECT_EQ(next_batch_size(state, rules), 200U); // worth a launch
}

TEST(NextBatchSize, OfAlikeRanksIsAShareOfTheRoundAndNotOfWhatOthersLeft) {
  BatchRules const rules{.grain = 10, .most = 1000000, .max_seconds = 1e9, .are_alike = true};
  QueueState state{.remaining = 10000, .num_ranks = 2, .own_speed = 1, .known_speeds = 2, .num_known = 2};
  state.last_batch = 100000;
  EXPECT_EQ(next_batch_size(state, rules), 2500U);
  state.taken = 2500;
  state.remaining = 7500;
  EXPECT_EQ(next_batch_size(state, rules), 2500U); // the second half of the first round
  state.taken = 5000;
  state.remaining = 5000;
  EXPECT_EQ(next_batch_size(state, rules), 1250U); // the second round
  state.taken = 9990;
  state.remaining = 10;
  EXPECT_EQ(next_batch_size(state, rules), 10U);
}

TEST(NextBatchSize, OfAlikeRanksKeepsADeviceBusyToTheEnd) {
  BatchRules const rules{.grain = 10, .most = 1000000, .max_seconds = 1e9, .least = 1000, .are_alike = true};
  QueueState state{.num_ranks = 2, .own_speed = 1, .known_speeds = 2, .num_known = 2, .last_batch = 100000};
  state.remaining = 4000;
  EXPECT_EQ(next_batch_size(state, rules), 1000U); // two rounds of two batches
  state.remaining = 3990;
  EXPECT_EQ(next_batch_size(state, rules), 2000U); // one
  state.taken = 2000;
  state.remaining = 1990;
  EXPECT_EQ(next_batch_size(state, rules), 2000U);
}

TEST(NextBatchSize, OfAlikeRanksNeedsNoTrial) {
  BatchRules rules{.grain = 10, .most = 3000, .max_seconds = 10.0, .least = 1000, .are_alike = true};
  EXPECT_EQ(next_batch_size({.remaining = 3000, .num_ranks = 2}, rules), 1500U); // the same as static parts
  EXPECT_EQ(next_batch_size({.remaining = 8000, .num_ranks = 2}, rules), 2000U);
  EXPECT_EQ(next_batch_size({.remaining = 80000, .num_ranks = 2}, rules), 3000U);
  QueueState const later{.remaining = 8000, .num_ranks = 2, .own_speed = 1e6, .known_speeds = 2e6, .num_known = 2};
  EXPECT_EQ(next_batch_size(later, rules), 3000U) << "worth a launch, however small the last batch";
  rules.one_grain = true;
  EXPECT_EQ(next_batch_size({.remaining = 3000, .num_ranks = 2}, rules), 10U);
}

TEST(NextBatchSize, OfOneRankIsAllThatMayBe) {
  BatchRules const rules{.grain = 10, .most = 100000, .max_seconds = 2.0};
  QueueState const state{.remaining = 500, .own_speed = 1e4, .known_speeds = 1e4, .num_known = 1, .last_batch = 400};
  EXPECT_EQ(next_batch_size(state, rules), 500U);
}

TEST(IsTooSlow, OnlyWhereTheOthersFinishBefore) {
  BatchRules const rules{.grain = 10, .max_seconds = {}};
  QueueState state{.remaining = 1000, .num_ranks = 2, .own_speed = 1, .known_speeds = 101, .num_known = 2};
  EXPECT_FALSE(is_too_slow(state, rules)); // 10 s for a grain; the other one needs 10 s and the grain it is in
  state.remaining = 900;
  EXPECT_TRUE(is_too_slow(state, rules));
  state.own_speed = 100; // equal speeds: never
  state.known_speeds = 200;
  state.remaining = 1;
  EXPECT_FALSE(is_too_slow(state, rules));
  EXPECT_FALSE(is_too_slow({.remaining = 5, .num_ranks = 2}, rules)); // no speed is known yet
}

/// Ranks of given speeds take batches in the order in which they become ready, as they would in a job.
struct Simulation {
  std::vector<double> speeds;
  double start_cost = 0.0; ///< seconds of each batch whatever its size
  SampleIndex least = 0;
  bool are_alike = false;

  /// Busy seconds of each rank.
  std::vector<double> run(SampleIndex num_samples) const {
    BatchRules const rules{.grain = grain_of(num_samples),
                           .most = num_samples,
                           .max_seconds = 10.0,
                           .least = least,
                           .are_alike = are_alike};
    std::vector<double> ready(speeds.size(), 0.0);
    std::vector<double> measured(speeds.size(), 0.0);
    std::vector<SampleIndex> last(speeds.size(), 0);
    std::vector<bool> gone(speeds.size(), false);
    for (SampleIndex next = 0; next < num_samples;) {
      std::size_t rank = speeds.size();
      for (std::size_t other = 0; other < speeds.size(); ++other)
        if (!gone[other] && (rank == speeds.size() || ready[other] < ready[rank])) rank = other;
      auto const num_known = std::ranges::count_if(measured, [](double speed) { return speed > 0.0; });
      QueueState const state{.remaining = num_samples - next,
                             .taken = next,
                             .num_ranks = speeds.size(),
                             .own_speed = measured[rank],
                             .known_speeds = std::accumulate(measured.begin(), measured.end(), 0.0),
                             .num_known = static_cast<std::size_t>(num_known),
                             .last_batch = last[rank]};
      if (is_too_slow(state, rules)) {
        gone[rank] = true;
        continue;
      }
      auto const size = std::min(next_batch_size(state, rules), num_samples - next);
      double const seconds = start_cost + static_cast<double>(size) / speeds[rank];
      next += size;
      ready[rank] += seconds;
      measured[rank] = static_cast<double>(size) / seconds;
      last[rank] = size;
    }
    return ready;
  }

  /// Part of the sum of all speeds that is reached.
  double efficiency(SampleIndex num_samples) const {
    auto const total = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    return static_cast<double>(num_samples) / total / std::ranges::max(run(num_samples));
  }
};

TEST(SimulatedRanks, OfEqualSpeedFinishTogether) {
  for (std::size_t const ranks : {2U, 3U, 4U, 16U}) {
    Simulation const job{std::vector<double>(ranks, 1e5)};
    auto const busy = job.run(10000000);
    auto const mean = std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(ranks);
    EXPECT_LE(std::ranges::max(busy) / mean, 1.05) << ranks;
  }
}

TEST(SimulatedRanks, OfUnlikeSpeedReachTheSumOfTheirSpeeds) {
  for (double const ratio : {1.5, 2.0, 5.0, 20.0, 100.0, 1000.0}) {
    Simulation const job{{1e5 * ratio, 1e5}};
    EXPECT_GE(job.efficiency(static_cast<SampleIndex>(1e6 * (ratio + 1.0))), 0.95) << ratio;
  }
  EXPECT_GE((Simulation{{4e5, 1e5, 3e5, 2e5}}.efficiency(10000000)), 0.95);
}

TEST(SimulatedRanks, PayLittleForStartingBatches) {
  Simulation const job{{1e6, 1e6, 1e6, 1e6}, 0.001};
  EXPECT_GE(job.efficiency(40000000), 0.95);
}

/// Two and four devices like those of perf/PROFILES.md: 0.5 million samples a second and 2.5 ms for every batch.
TEST(SimulatedRanks, ThatAreAlikeAreAsGoodAsStaticParts) {
  for (std::size_t const ranks : {2U, 4U}) {
    for (SampleIndex const num_samples : {60000U, 600000U, 6000000U}) {
      Simulation const job{std::vector<double>(ranks, 5e5), 0.0025, 1U << 17U, true};
      auto const part = static_cast<double>(num_samples) / static_cast<double>(ranks);
      auto const in_one_part = job.start_cost + part / 5e5;
      EXPECT_LE(std::ranges::max(job.run(num_samples)), 1.05 * in_one_part) << ranks << " ranks, " << num_samples;
    }
  }
}

TEST(SimulatedRanks, ThatAreAlikeButForOneShareTheWorkAllTheSame) {
  Simulation const job{{5e5, 5e5, 5e5, 2.5e5}, 0.0025, 1U << 17U, true};
  EXPECT_GE(job.efficiency(20000000), 0.9);
}

} // namespace
} // namespace varve
