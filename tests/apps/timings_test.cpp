#include "apps/network_run.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace varve {
namespace {

TEST(Timings, AreTheMedianAndTheMiddleHalf) {
  auto const five = summarize({5.0, 1.0, 3.0, 2.0, 4.0});
  EXPECT_DOUBLE_EQ(five.median, 3.0);
  EXPECT_DOUBLE_EQ(five.spread, 2.0 / 3.0);
  auto const two = summarize({1.0, 2.0});
  EXPECT_DOUBLE_EQ(two.median, 1.5);
  EXPECT_DOUBLE_EQ(two.spread, 0.5 / 1.5);
  EXPECT_DOUBLE_EQ(summarize({7.0}).median, 7.0);
  EXPECT_DOUBLE_EQ(summarize({7.0}).spread, 0.0);
  EXPECT_DOUBLE_EQ(summarize({0.0, 0.0}).spread, 0.0);
}

TEST(Timings, AreClearlyFasterBeyondTheSpreadOfBothAndTwoPerCent) {
  EXPECT_FALSE(is_clearly_faster({1.0, 0.0}, {1.0, 0.0}));
  EXPECT_FALSE(is_clearly_faster({0.99, 0.0}, {1.0, 0.0}));
  EXPECT_TRUE(is_clearly_faster({0.97, 0.0}, {1.0, 0.0}));
  EXPECT_FALSE(is_clearly_faster({0.97, 0.04}, {1.0, 0.0}));
  EXPECT_FALSE(is_clearly_faster({0.97, 0.0}, {1.0, 0.04}));
  EXPECT_TRUE(is_clearly_faster({0.9, 0.04}, {1.0, 0.09}));
  EXPECT_FALSE(is_clearly_faster({1.0, 0.04}, {0.9, 0.04}));
}

/// Of fifteen alternatives that are as fast as the first, few seem clearly faster, and hardly any twice in a row.
TEST(Timings, OfEqualsAreHardlyEverClearlyFasterTwice) {
  std::mt19937 random(1);
  auto const measured = [&] {
    std::normal_distribution<double> seconds(1.0, 0.05);
    std::vector<double> seven;
    for (int i = 0; i < 7; ++i) seven.push_back(seconds(random));
    return summarize(seven);
  };
  int num_recommended = 0;
  for (int tuning = 0; tuning < 400; ++tuning) {
    bool is_kept = false;
    auto const before = measured();
    for (int alternative = 0; alternative < 15; ++alternative) is_kept |= is_clearly_faster(measured(), before);
    if (is_kept && is_clearly_faster(measured(), measured())) ++num_recommended;
  }
  EXPECT_LE(num_recommended, 20) << "of 400";
}

} // namespace
} // namespace varve
