#include "core/checked.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace varve {
namespace {

constexpr auto largest = std::numeric_limits<std::uint64_t>::max();

TEST(Checked, SumsAndProductsThatFit) {
  EXPECT_EQ(checked_add(largest - 5, 5), largest);
  EXPECT_EQ(checked_add(0, 0), 0U);
  EXPECT_EQ(checked_multiply(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1),
            largest - (std::uint64_t{1} << 32) + 1);
  EXPECT_EQ(checked_multiply(largest, 1), largest);
  EXPECT_EQ(checked_multiply(largest, 0), 0U);
  EXPECT_EQ(checked_multiply(0, largest), 0U);
}

TEST(Checked, SumsAndProductsThatWouldWrap) {
  EXPECT_EQ(checked_add(largest, 1), std::nullopt);
  EXPECT_EQ(checked_add(std::uint64_t{1} << 63, std::uint64_t{1} << 63), std::nullopt);
  EXPECT_EQ(checked_multiply(2, std::uint64_t{1} << 63), std::nullopt);
  EXPECT_EQ(checked_multiply(largest, largest), std::nullopt);
  EXPECT_EQ(capped_add(largest, 1), largest);
  EXPECT_EQ(capped_multiply(std::uint64_t{1} << 63, 2), largest);
}

TEST(Checked, WholePartsOfNumbers) {
  EXPECT_EQ(capped_integer(2.75), 2U);
  EXPECT_EQ(capped_integer(-1.0), 0U);
  EXPECT_EQ(capped_integer(std::numeric_limits<double>::quiet_NaN()), 0U);
  EXPECT_EQ(capped_integer(1e300), largest);
  EXPECT_EQ(capped_integer(18446744073709551616.0), largest);
}

} // namespace
} // namespace varve
