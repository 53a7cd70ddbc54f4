#include "radixnet/random.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <set>

namespace varve {
namespace {

TEST(RandomStream, IsTheSameOnEveryPlatform) {
  RandomStream random(1, 2);
  EXPECT_EQ(random.bits(), 15201566595796281265U);
  EXPECT_EQ(random.bits(), 16567122129728874927U);
}

TEST(RandomStream, GivesBitsAheadWithoutDrawingThem) {
  RandomStream random(1, 2);
  EXPECT_EQ(random.bits_at(1), 16567122129728874927U);
  EXPECT_EQ(random.bits_at(0), 15201566595796281265U);
  random.bits();
  EXPECT_EQ(random.bits_at(0), 16567122129728874927U);
}

TEST(RandomStream, SeedsAndStreamsDiffer) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (std::uint64_t stream = 0; stream < 40; ++stream) firsts.insert(RandomStream(seed, stream).bits());
  }
  EXPECT_EQ(firsts.size(), 1600U);
}

TEST(RandomStream, DrawsEachValueAboutEquallyOften) {
  std::array<int, 7> counts{};
  RandomStream random(3, 0);
  for (int draw = 0; draw < 70000; ++draw) ++counts[random.below(7)];
  for (auto const count : counts) EXPECT_NEAR(count, 10000, 400); // four standard deviations
}

TEST(RandomStream, DrawsFromHugeBoundsWithoutBias) {
  // Reduced modulo 3 * 2^62 without drawing again, the lower third would come up twice as often as it should.
  std::uint64_t const bound = std::uint64_t{3} << 62U;
  RandomStream random(4, 0);
  int in_lower_third = 0;
  for (int draw = 0; draw < 30000; ++draw) {
    auto const value = random.below(bound);
    ASSERT_LT(value, bound);
    if (value < bound / 3) ++in_lower_third;
  }
  EXPECT_NEAR(in_lower_third, 10000, 330);
}

TEST(RandomStream, ReachesBothEnds) {
  RandomStream random(5, 0);
  std::set<std::int64_t> values;
  for (int draw = 0; draw < 200; ++draw) values.insert(random.between(-2, 2));
  EXPECT_EQ(values, (std::set<std::int64_t>{-2, -1, 0, 1, 2}));
  EXPECT_EQ(random.between(9, 9), 9);
  EXPECT_EQ(random.below(1), 0U);
}

} // namespace
} // namespace varve
