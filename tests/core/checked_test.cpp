#include "core/error.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace varve {
namespace {

constexpr auto largest = std::numeric_limits<std::uint64_t>::max();

TEST(Checked, SumsAndProductsThatFit) {
  EXPECT_EQ(capped_add(largest - 5, 5), largest);
  EXPECT_EQ(capped_add(0, 0), 0U);
  EXPECT_EQ(checked_multiply(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1),
            largest - (std::uint64_t{1} << 32) + 1);
  EXPECT_EQ(checked_multiply(largest, 1), largest);
  EXPECT_EQ(checked_multiply(largest, 0), 0U);
  EXPECT_EQ(checked_multiply(0, largest), 0U);
}

TEST(Checked, SumsAndProductsThatWouldWrap) {
  EXPECT_EQ(capped_add(std::uint64_t{1} << 63, std::uint64_t{1} << 63), largest);
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

TEST(Checked, NumbersThatDoNotFitANarrowerTypeAreRefused) {
  EXPECT_EQ(narrowed<std::uint16_t>(65535, "inputs"), 65535);
  EXPECT_EQ(narrowed<std::uint32_t>(4294967295ULL, "chunks"), 4294967295U);
  EXPECT_EQ(narrowed<int>(2147483647ULL, "neurons"), 2147483647);
  auto const refuse = [](auto const& narrow) { EXPECT_THROW(narrow(), InputError); };
  refuse([] { narrowed<std::uint8_t>(256, "edges"); });
  refuse([] { narrowed<std::uint16_t>(65536, "inputs"); });
  refuse([] { narrowed<std::uint32_t>(4294967296ULL, "chunks"); });
  refuse([] { narrowed<int>(2147483648ULL, "neurons"); });
  refuse([] { narrowed<int>(largest, "neurons"); });
  try {
    narrowed<std::uint32_t>(4294967296ULL, "chunks");
  } catch (InputError const& error) {
    EXPECT_STREQ(error.what(), "chunks: found 4294967296, expected at most 4294967295");
  }
}

} // namespace
} // namespace varve
