#include "apps/report.hpp"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(Timings, AreTheMedianAndTheMiddleHalf) {
  auto const five = statistics_of({5.0, 1.0, 3.0, 2.0, 4.0});
  EXPECT_DOUBLE_EQ(five["median"], 3.0);
  EXPECT_DOUBLE_EQ(five["spread"], 2.0 / 3.0);
  auto const two = statistics_of({1.0, 2.0});
  EXPECT_DOUBLE_EQ(two["median"], 1.5);
  EXPECT_DOUBLE_EQ(two["spread"], 0.5 / 1.5);
  EXPECT_DOUBLE_EQ(statistics_of({7.0})["median"], 7.0);
  EXPECT_DOUBLE_EQ(statistics_of({7.0})["spread"], 0.0);
  EXPECT_DOUBLE_EQ(statistics_of({0.0, 0.0})["spread"], 0.0);
}

} // namespace
} // namespace varve
