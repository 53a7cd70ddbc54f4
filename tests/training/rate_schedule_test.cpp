#include "training/recipe.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace varve {
namespace {

TEST(RateSchedule, IsConstant) {
  RateSchedule const schedule{ScheduleKind::constant, 0.3};
  for (std::uint64_t const step : {0U, 1U, 99U}) EXPECT_EQ(rate_at(schedule, step, 10, 10), 0.3);
}

TEST(RateSchedule, FallsAfterEveryFewEpochs) {
  RateSchedule const schedule{ScheduleKind::step, 1.0, 0.5, 3};
  EXPECT_EQ(rate_at(schedule, 29, 10, 10), 1.0);
  EXPECT_EQ(rate_at(schedule, 30, 10, 10), 0.5);
  EXPECT_EQ(rate_at(schedule, 59, 10, 10), 0.5);
  EXPECT_EQ(rate_at(schedule, 60, 10, 10), 0.25);
}

TEST(RateSchedule, FollowsACosine) {
  RateSchedule const schedule{ScheduleKind::cosine, 2.0};
  EXPECT_EQ(rate_at(schedule, 0, 100, 10), 2.0);
  EXPECT_EQ(rate_at(schedule, 500, 100, 10), 1.0);
  for (std::uint64_t step = 0; step < 1000; step += 7)
    EXPECT_NEAR(rate_at(schedule, step, 100, 10), 1.0 + std::cos(std::numbers::pi * static_cast<double>(step) / 1000.0),
                1e-15)
        << step;
}

TEST(RateSchedule, RisesInTheFirstSteps) {
  RateSchedule schedule{ScheduleKind::constant, 8.0};
  schedule.warm_up = 4;
  EXPECT_EQ(rate_at(schedule, 0, 10, 10), 2.0);
  EXPECT_EQ(rate_at(schedule, 2, 10, 10), 6.0);
  EXPECT_EQ(rate_at(schedule, 3, 10, 10), 8.0);
  EXPECT_EQ(rate_at(schedule, 4, 10, 10), 8.0);
}

TEST(RateSchedule, IsKnownByNameAndChecked) {
  for (auto const kind : {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine})
    EXPECT_EQ(parse_rate_schedule(to_string(kind)), kind);
  EXPECT_THROW(parse_rate_schedule("linear"), UsageError);
  EXPECT_NO_THROW(require_valid(RateSchedule{}));
  EXPECT_THROW(require_valid(RateSchedule{ScheduleKind::constant, 0.0}), UsageError);
  EXPECT_THROW(require_valid(RateSchedule{ScheduleKind::constant, std::nan("")}), UsageError);
  EXPECT_THROW(require_valid(RateSchedule{ScheduleKind::step, 0.1, -1.0}), UsageError);
  EXPECT_THROW(require_valid(RateSchedule{ScheduleKind::step, 0.1, 0.1, 0}), UsageError);
}

} // namespace
} // namespace varve
