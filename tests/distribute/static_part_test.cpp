#include "distribute/communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace varve {
namespace {

TEST(StaticPart, CoversEverySampleOnceWithPartsOfEqualSize) {
  for (SampleIndex const num_samples : {0U, 1U, 2U, 3U, 4U, 5U, 7U, 16U, 99U, 100U, 101U, 600U, 60000U}) {
    for (int const num_ranks : {1, 2, 3, 4, 5, 7, 8, 64, 1000}) {
      SampleIndex end = 0;
      SampleIndex smallest = num_samples;
      SampleIndex largest = 0;
      for (int rank = 0; rank < num_ranks; ++rank) {
        auto const [first, last] = static_part(num_samples, rank, num_ranks);
        ASSERT_EQ(first, end);
        ASSERT_LE(first, last);
        smallest = std::min(smallest, last - first);
        largest = std::max(largest, last - first);
        end = last;
      }
      ASSERT_EQ(end, num_samples);
      ASSERT_LE(largest - smallest, 1U) << num_samples << " samples on " << num_ranks << " ranks";
    }
  }
}

TEST(StaticPart, OfHugeInputs) {
  constexpr SampleIndex num_samples = (SampleIndex(1) << 62) + 5;
  EXPECT_EQ(static_part(num_samples, 0, 3).first, 0U);
  EXPECT_EQ(static_part(num_samples, 0, 3).second, static_part(num_samples, 1, 3).first);
  EXPECT_EQ(static_part(num_samples, 1, 3).second, static_part(num_samples, 2, 3).first);
  EXPECT_EQ(static_part(num_samples, 2, 3).second, num_samples);
}

TEST(StaticPart, OfOneRankIsEverything) { EXPECT_EQ(static_part(42, 0, 1), SampleRange(0, 42)); }

} // namespace
} // namespace varve
