#include "training/recipe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace varve {
namespace {

TEST(SampleOrder, IsAPermutationOfItsEpochAndSeed) {
  auto const order = sample_order(7, 3, 1000);
  auto sorted = order;
  std::ranges::sort(sorted);
  for (std::uint64_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], i);
  EXPECT_EQ(order, sample_order(7, 3, 1000));
  EXPECT_NE(order, sample_order(7, 4, 1000));
  EXPECT_NE(order, sample_order(8, 3, 1000));
}

TEST(SampleOrder, IsTheSameOnEveryMachine) {
  EXPECT_EQ(sample_order(1, 0, 6), (std::vector<std::uint64_t>{1, 3, 4, 2, 5, 0}));
  EXPECT_TRUE(sample_order(1, 0, 0).empty());
  EXPECT_EQ(sample_order(1, 0, 1), std::vector<std::uint64_t>{0});
}

TEST(SampleOrder, PutsEverySampleEverywhere) {
  std::vector<int> first(8, 0);
  for (std::uint64_t epoch = 0; epoch < 8000; ++epoch) ++first[sample_order(5, epoch, 8)[0]];
  for (int const count : first) EXPECT_NEAR(count, 1000, 150);
}

} // namespace
} // namespace varve
