#include "network/leaf.hpp"

#include "radixnet/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace varve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<float> random_sums(std::size_t count) {
  RandomStream random(5, count);
  std::vector<float> sums(count);
  for (auto& sum : sums) sum = static_cast<float>(random.bits() >> 40U) * 0x1p-24F - 0.3F;
  return sums;
}

float sum_of(Subtree const& part, std::vector<float> const& leaves) {
  return leaf_tree(part.first, part.count, [&](std::size_t leaf) { return leaves[leaf]; });
}

/// The sums of the parts, added as merges_of() says.
std::vector<float> merged(std::vector<Subtree> const& parts, std::vector<float> const& leaves) {
  auto const merges = merges_of(parts, leaves.size());
  std::vector<float> stack;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    stack.push_back(sum_of(parts[i], leaves));
    for (std::size_t merge = 0; merge < merges[i]; ++merge) {
      float const upper = stack.back();
      stack.pop_back();
      stack.back() += upper;
    }
  }
  return stack;
}

TEST(Subtrees, AreAlignedRunsOrTheRestOfTheTree) {
  EXPECT_TRUE(is_subtree({4, 4}, 11));
  EXPECT_FALSE(is_subtree({2, 4}, 11));
  EXPECT_FALSE(is_subtree({4, 3}, 11));
  EXPECT_TRUE(is_subtree({8, 3}, 11)) << "the rest after the first 8 leaves";
  EXPECT_FALSE(is_subtree({8, 4}, 11)) << "there is no leaf 11";
  EXPECT_TRUE(is_subtree({0, 11}, 11));
  EXPECT_FALSE(is_subtree({0, 12}, 11));
  EXPECT_FALSE(is_subtree({4, 0}, 11));
}

TEST(Subtrees, AreTheFewestThatCoverARun) {
  EXPECT_THAT(subtrees_of(0, 8, 8), ElementsAre(Subtree{0, 8}));
  EXPECT_THAT(subtrees_of(3, 8, 8), ElementsAre(Subtree{3, 1}, Subtree{4, 4}));
  EXPECT_THAT(subtrees_of(5, 11, 11), ElementsAre(Subtree{5, 1}, Subtree{6, 2}, Subtree{8, 3}));
  EXPECT_THAT(subtrees_of(5, 5, 11), IsEmpty());
  EXPECT_THAT(subtrees_of(0, 0, 0), IsEmpty());
}

TEST(Subtrees, OfAllRanksAddUpToTheTree) {
  for (std::size_t count = 1; count <= 37; ++count) {
    auto const leaves = random_sums(count);
    for (std::size_t one = 0; one <= count; ++one) {
      for (std::size_t two = one; two <= count; two += 1 + count / 8) {
        std::vector<Subtree> all;
        for (auto const& [first, last] : {std::pair{std::size_t(0), one}, std::pair{one, two}, std::pair{two, count}}) {
          auto const some = subtrees_of(first, last, count);
          for (auto const& part : some) EXPECT_TRUE(is_subtree(part, count));
          all.insert(all.end(), some.begin(), some.end());
        }
        EXPECT_THAT(merged(all, leaves), ElementsAre(sum_of({0, count}, leaves))) << count << " " << one << " " << two;
      }
    }
  }
}

TEST(Subtrees, SumsInTheOrderOfRanksAreOtherSums) {
  int num_others = 0;
  for (std::size_t count = 3; count <= 37; ++count) {
    auto const leaves = random_sums(count);
    float in_order = 0.0F;
    for (float const sum : leaves) in_order += sum;
    num_others += in_order != sum_of({0, count}, leaves) ? 1 : 0;
  }
  EXPECT_GT(num_others, 10) << "the sums of this test tell a tree from a chain";
}

TEST(Subtrees, OfPartOfTheLeavesStayApart) {
  auto const leaves = random_sums(16);
  auto const stack = merged({{5, 1}, {6, 1}, {7, 1}, {8, 4}, {12, 2}}, leaves);
  EXPECT_THAT(stack, ElementsAre(sum_of({5, 1}, leaves), sum_of({6, 2}, leaves), sum_of({8, 4}, leaves),
                                 sum_of({12, 2}, leaves)));
}

} // namespace
} // namespace varve
