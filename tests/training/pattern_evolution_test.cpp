#include "training/recipe.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace varve {
namespace {

std::vector<std::uint64_t> steps_of(PatternEvolution const& evolution, std::uint64_t num_steps) {
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 0; step < num_steps; ++step)
    if (event_before(evolution, step, num_steps, 1)) steps.push_back(step);
  return steps;
}

TEST(PatternEvolution, HappensAtIntervalsUntilItsEnd) {
  using Steps = std::vector<std::uint64_t>;
  PatternEvolution evolution{PatternKind::rigl, 0.3, 10, 0.5, PatternSchedule::constant};
  EXPECT_EQ(steps_of(evolution, 100), (Steps{10, 20, 30, 40})) << "not before step 50";
  EXPECT_EQ(steps_of(evolution, 101), (Steps{10, 20, 30, 40})) << "the end is before step 50";
  EXPECT_EQ(steps_of(evolution, 102), (Steps{10, 20, 30, 40, 50}));
  evolution.until = 1.0;
  EXPECT_EQ(steps_of(evolution, 31), (Steps{10, 20, 30})) << "1 is the whole training";
  evolution.until = 21;
  EXPECT_EQ(steps_of(evolution, 100), (Steps{10, 20}));
  evolution.until = 1000;
  EXPECT_EQ(steps_of(evolution, 25), (Steps{10, 20}));
  evolution.every = 1;
  EXPECT_EQ(steps_of(evolution, 4), (Steps{1, 2, 3}));
  evolution.kind = PatternKind::keep;
  EXPECT_EQ(steps_of(evolution, 4), Steps{});
}

TEST(PatternEvolution, FollowsItsSchedule) {
  PatternEvolution evolution{PatternKind::set, 0.4, 10, 0.5, PatternSchedule::constant};
  auto const event = event_before(evolution, 30, 200, 17);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, PatternKind::set);
  EXPECT_EQ(event->fraction, 0.4);
  EXPECT_EQ(event->seed, 17U);
  EXPECT_EQ(event->number, 3U);
  evolution.schedule = PatternSchedule::cosine;
  for (std::uint64_t step = 10; step < 100; step += 10) {
    EXPECT_NEAR(event_before(evolution, step, 200, 17)->fraction,
                0.2 * (1.0 + std::cos(std::numbers::pi * static_cast<double>(step) / 100.0)), 1e-15);
  }
  evolution.until = 40; // steps
  EXPECT_NEAR(event_before(evolution, 20, 200, 17)->fraction, 0.2, 1e-15);
}

TEST(PatternEvolution, IsKnownByNameAndChecked) {
  for (auto const schedule : {PatternSchedule::constant, PatternSchedule::cosine})
    EXPECT_EQ(parse_pattern_schedule(to_string(schedule)), schedule);
  EXPECT_THROW(parse_pattern_schedule("step"), UsageError);
  EXPECT_NO_THROW(require_valid(PatternEvolution{}));
  for (double const fraction : {0.0, -0.5, 1.5, std::nan("")})
    EXPECT_THROW(require_valid(PatternEvolution{PatternKind::set, fraction}), UsageError) << fraction;
  EXPECT_NO_THROW(require_valid(PatternEvolution{PatternKind::set, 1.0}));
  EXPECT_THROW(require_valid(PatternEvolution{PatternKind::set, 0.5, 0}), UsageError);
  for (double const until : {0.0, -1.0, 1e300, std::nan("")})
    EXPECT_THROW(require_valid(PatternEvolution{PatternKind::set, 0.5, 1, until}), UsageError) << until;
}

} // namespace
} // namespace varve
