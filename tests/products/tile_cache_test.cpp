#include "products/product_schedule.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <stdexcept>

namespace varve {
namespace {

TileKey key(std::uint64_t tile, std::uint64_t step = 0) { return {TileKey::Operand::a, tile, step}; }

TEST(TileCaches, ReplaceWhatWasUsedLongestAgo) {
  TileCache cache(2);
  auto const first = cache.replace(key(1));
  auto const second = cache.replace(key(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(cache.find(key(1)), first); // so tile 2 was used longest ago
  EXPECT_EQ(cache.replace(key(3)), second);
  EXPECT_EQ(cache.find(key(2)), std::nullopt);
  EXPECT_EQ(cache.find(key(3)), second);
  EXPECT_EQ(cache.num_hits(), 2U);
  EXPECT_EQ(cache.num_misses(), 1U);
}

TEST(TileCaches, TellTilesOfBothInputsAndAllStepsApart) {
  TileCache cache(4);
  auto const slot = cache.replace({TileKey::Operand::a, 1, 2});
  EXPECT_FALSE(cache.has({TileKey::Operand::b, 1, 2}));
  EXPECT_FALSE(cache.has({TileKey::Operand::a, 2, 1}));
  EXPECT_TRUE(cache.has({TileKey::Operand::a, 1, 2}));
  EXPECT_EQ(cache.num_hits() + cache.num_misses(), 0U); // has() is no use
  EXPECT_EQ(cache.find({TileKey::Operand::a, 1, 2}), slot);
}

TEST(TileCaches, KeepWhatIsHeld) {
  TileCache cache(2);
  auto const held = cache.replace(key(1));
  auto const other = cache.replace(key(2));
  cache.hold(held);
  EXPECT_EQ(cache.replace(key(3)), other);
  EXPECT_EQ(cache.replace(key(4)), other);
  EXPECT_EQ(cache.find(key(1)), held);
  cache.hold(other);
  EXPECT_THROW(cache.replace(key(5)), std::logic_error);
  cache.release(held);
  EXPECT_EQ(cache.replace(key(5)), held);
  EXPECT_THROW(cache.replace(key(5)), std::logic_error);
}

TEST(TileCaches, LetTilesPassByThoseThatStay) {
  auto const passing = [](std::uint64_t tile) { return TileKey{TileKey::Operand::b, tile, 0}; };
  TileCache cache(4, TileShares{TileKey::Operand::a, 2, 6});
  auto const use = [&](TileKey const& wanted) {
    bool const is_there = cache.find(wanted).has_value();
    if (!is_there) cache.replace(wanted);
    return is_there;
  };
  EXPECT_FALSE(use(key(1)));
  EXPECT_FALSE(use(key(2)));
  for (std::uint64_t tile = 0; tile < 5; ++tile) EXPECT_FALSE(use(passing(tile)));
  EXPECT_TRUE(use(key(1))); // though it was used longest ago
  EXPECT_TRUE(use(key(2)));
  EXPECT_TRUE(use(passing(3)));
  EXPECT_FALSE(use(key(3))); // more than the share: of the kept ones the first makes room
  EXPECT_FALSE(cache.has(key(1)));
  EXPECT_TRUE(cache.has(passing(4)));
  for (std::uint64_t count = 0; count < 6; ++count) EXPECT_TRUE(use(key(3)));
  EXPECT_FALSE(use(passing(9))); // tile 2 was not used for longer than the patience
  EXPECT_FALSE(cache.has(key(2)));
  EXPECT_TRUE(cache.has(passing(3)));
}

/// A slot always has the tile that was last put there.
TEST(TileCaches, NeverServeAStaleTile) {
  std::mt19937 random(7);
  TileCache cache(5);
  std::map<std::size_t, std::uint64_t> content; // what a device would hold in each slot
  for (int step = 0; step < 5000; ++step) {
    auto const tile = random() % 12;
    if (auto const slot = cache.find(key(tile))) {
      ASSERT_EQ(content.at(*slot), tile);
    } else {
      content[cache.replace(key(tile))] = tile;
    }
  }
  EXPECT_GT(cache.num_hits(), 1000U);
}

} // namespace
} // namespace varve
