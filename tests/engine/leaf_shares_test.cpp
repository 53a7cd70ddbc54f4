#include "engine/step_shares.hpp"

#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace varve {
namespace {

using testing::ElementsAre;

TEST(LeafShares, AreEqualWhileSpeedsAreUnknown) {
  EXPECT_THAT(LeafShares(1, {}).cuts(7), ElementsAre(0, 7));
  EXPECT_THAT(LeafShares(2, {}).cuts(64), ElementsAre(0, 32, 64));
  EXPECT_THAT(LeafShares(4, {}).cuts(64), ElementsAre(0, 16, 32, 48, 64));
  EXPECT_THAT(LeafShares(3, {}).cuts(7), ElementsAre(0, 2, 5, 7));
}

TEST(LeafShares, CutAtLargePowersOfTwoWhereThatCostsLittle) {
  EXPECT_THAT(LeafShares(3, {}).cuts(64), ElementsAre(0, 22, 42, 64)) << "22 leaves at most, as with cuts anywhere";
  EXPECT_THAT(LeafShares(2, {1.02, 1.0}).cuts(64), ElementsAre(0, 32, 64)) << "33 leaves would gain less than 5 %";
  EXPECT_THAT(LeafShares(2, {3.0, 1.0}).cuts(64), ElementsAre(0, 48, 64));
}

TEST(LeafShares, GiveEveryRankALeafIfThereAreEnough) {
  EXPECT_THAT(LeafShares(4, {1000.0, 1.0, 1.0, 1000.0}).cuts(4), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(LeafShares(3, {1000.0, 1.0, 1.0}).cuts(64), ElementsAre(0, 62, 63, 64));
  for (std::size_t num_leaves = 0; num_leaves < 12; ++num_leaves) {
    auto const cuts = LeafShares(5, {}).cuts(num_leaves);
    ASSERT_EQ(cuts.size(), 6U);
    EXPECT_EQ(cuts.front(), 0U);
    EXPECT_EQ(cuts.back(), num_leaves);
    EXPECT_TRUE(std::ranges::is_sorted(cuts));
    for (std::size_t rank = 0; rank < 5; ++rank)
      EXPECT_LE(cuts[rank + 1] - cuts[rank], (num_leaves + 4) / 5) << num_leaves << " " << rank;
  }
}

TEST(LeafShares, FollowMeasuredSpeeds) {
  LeafShares shares(2, {});
  auto cuts = shares.cuts(64);
  for (int step = 0; step < 3; ++step) {
    shares.measure({static_cast<double>(cuts[1]) * 1.0, static_cast<double>(64 - cuts[1]) * 3.0}, cuts);
    cuts = shares.cuts(64);
  }
  EXPECT_EQ(cuts[1], 48U);
  shares.measure({48.0 * 9.0, 16.0 * 3.0}, cuts); // one slow step, for which the smoothed speed changes less
  EXPECT_GT(shares.cuts(64)[1], 24U);
  EXPECT_LT(shares.cuts(64)[1], 48U);
}

TEST(LeafShares, KeepTheSpeedOfRanksWithoutLeaves) {
  LeafShares shares(3, {});
  shares.measure({2.0, 0.0, 2.0}, {0, 1, 1, 2});
  EXPECT_THAT(shares.cuts(48), ElementsAre(0, 16, 32, 48)) << "the second rank counts as fast as the others";
  shares.measure({0.0, 0.0, 0.0}, {0, 16, 32, 48});
  EXPECT_THAT(shares.cuts(48), ElementsAre(0, 16, 32, 48)) << "clocks that stand still say nothing";
}

TEST(LeafShares, KeepGivenSpeedsAndRefuseImpossibleOnes) {
  LeafShares shares(2, {3.0, 1.0});
  shares.measure({100.0, 1.0}, {0, 48, 64});
  EXPECT_THAT(shares.cuts(64), ElementsAre(0, 48, 64));
  EXPECT_THROW(LeafShares(2, {1.0}), UsageError);
  EXPECT_THROW(LeafShares(2, {1.0, 0.0}), UsageError);
}

} // namespace
} // namespace varve
