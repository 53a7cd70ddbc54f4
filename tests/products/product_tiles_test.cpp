#include "core/error.hpp"
#include "products/product_tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace varve {
namespace {

TEST(ProductTiles, CoverEachNumberOnce) {
  auto const tiles = tiles_of({100, 70, 90}, 32);
  EXPECT_EQ(tiles.num_row_tiles(), 4U);
  EXPECT_EQ(tiles.num_column_tiles(), 3U);
  EXPECT_EQ(tiles.num_steps(), 2U);
  std::vector<int> seen(100 * 70, 0);
  for (std::uint64_t task = 0; task < tiles.num_tasks(); ++task) {
    auto const block = tiles.block(task);
    for (auto row = block.first_row; row < block.first_row + block.num_rows; ++row) {
      for (auto column = block.first_column; column < block.first_column + block.num_columns; ++column)
        ++seen[row * 70 + column];
    }
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](int count) { return count == 1; }));
}

TEST(ProductTiles, StepsAreLongInLargeTiles) {
  EXPECT_EQ(tiles_of({10, 10, 10}, 1).step, 64U);
  EXPECT_EQ(tiles_of({10, 10, 10}, 100).step, 100U);
  EXPECT_EQ(tiles_of({10, 10, 10}, 1024).step, 512U);
  EXPECT_EQ(tiles_of({10, 10, 10}, 3000).step, 750U);
  EXPECT_EQ(tiles_of({10, 10, 10}, 4096).step, 1024U);
}

TEST(ProductTiles, RefuseSizesThatCannotBe) {
  EXPECT_THROW(tiles_of({10, 10, 10}, 0), UsageError);
  EXPECT_THROW(tiles_of({10, 10, 10}, largest_product_tile + 1), UsageError);
  EXPECT_THROW(tiles_of({1U << 20U, 1U << 20U, 1}, 8), UsageError);
  EXPECT_NO_THROW(tiles_of({1U << 11U, 1U << 11U, 1}, 1));
}

TEST(ProductTiles, OrderHoldsEachTaskOnceAndNeighboursShareTiles) {
  for (ProductShape const shape : {ProductShape{8, 8, 1}, ProductShape{1, 9, 1}, ProductShape{5, 3, 1}}) {
    auto const tiles = tiles_of(shape, 1);
    auto order = order_of_tasks(tiles);
    std::vector<std::uint64_t> all(tiles.num_tasks());
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    EXPECT_TRUE(std::ranges::is_permutation(order, all));
  }
  auto const order = order_of_tasks(tiles_of({8, 8, 1}, 1));
  std::vector<std::uint64_t> const square(order.begin(), order.begin() + 4);
  EXPECT_TRUE(std::ranges::is_permutation(square, std::vector<std::uint64_t>{0, 1, 8, 9}));
}

TEST(ProductTiles, OrderOfBandsGoesToAndFro) {
  auto const tiles = tiles_of({3, 4, 1}, 1);
  EXPECT_EQ(order_of_tasks(tiles, {2, false, true}),
            (std::vector<std::uint64_t>{0, 4, 1, 5, 2, 6, 3, 7, 11, 10, 9, 8}));
  EXPECT_EQ(order_of_tasks(tiles, {3, true, false}),
            (std::vector<std::uint64_t>{0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 7, 3}));
  EXPECT_EQ(order_of_tasks(tiles, {100, false, true}),
            (std::vector<std::uint64_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
}

TEST(ProductMemory, HasAsManyTasksAsLeaveEightTiles) {
  auto const tiles = tiles_of({640, 640, 640}, 64);
  ProductDevice device{4, 16, 32, std::size_t{1} << 30U};
  auto const all = plan_product(tiles, device);
  EXPECT_EQ(all.num_lanes, 4U);
  EXPECT_EQ(all.num_slots, 200U); // all tiles of A and B
  EXPECT_EQ(all.slot_bytes, 64U * 64U * 4U);
  EXPECT_EQ(all.lane_bytes, 2U * 64U * 64U * 4U);
  device.memory_limit = 2 * all.lane_bytes + 8 * all.slot_bytes;
  EXPECT_EQ(plan_product(tiles, device).num_lanes, 2U);
  EXPECT_EQ(plan_product(tiles, device).num_slots, 8U);
  device.memory_limit = all.lane_bytes + 2 * all.slot_bytes;
  EXPECT_EQ(plan_product(tiles, device).num_slots, 2U);
  EXPECT_LE(plan_product(tiles, device).bytes(), device.memory_limit);
  --device.memory_limit;
  EXPECT_THROW(plan_product(tiles, device), ResourceError);
}

TEST(ProductMemory, HasBandsOrBlocksIfNotAllTilesFit) {
  ProductDevice device{4, 12, 32, std::size_t{8} << 30U};
  auto const bands = plan_product(tiles_of({60000, 60000, 60000}, 8192), device);
  EXPECT_EQ(bands.order, (ProductOrder{3, false, true}));
  EXPECT_EQ(bands.num_lanes, 3U);
  EXPECT_LE(bands.bytes(), device.memory_limit);
  auto const wide = plan_product(tiles_of({60000, 60000, 60000}, 2048), device); // more rows of tiles than tasks
  EXPECT_EQ(wide.order.band % wide.num_lanes, 0U);
  EXPECT_GT(wide.order.band, wide.num_lanes);
  EXPECT_EQ(plan_product(tiles_of({60000, 9000, 60000}, 2048), device).order.is_of_columns, true); // B twice is less
  device.memory_limit = std::size_t{1} << 30U; // not one row of tiles
  auto const block = plan_product(tiles_of({60000, 60000, 60000}, 4096), device);
  EXPECT_EQ(block.order, (ProductOrder{3, false, false}));
  EXPECT_EQ(block.num_lanes, 9U);
  EXPECT_LE(block.bytes(), device.memory_limit);
  EXPECT_LE(plan_product(tiles_of({20000, 20000, 60000}, 4096), device).num_lanes, 4U); // 25 tasks: ranks share them
}

TEST(ProductMemory, TileIsLargeButLeavesManyTasks) {
  ProductDevice const device{4, 12, 32, std::size_t{1} << 34U};
  EXPECT_EQ(choose_tile({4096, 4096, 4096}, device, 4096), 1024U);
  EXPECT_EQ(choose_tile({60000, 60000, 60000}, device, 4096), 4096U);
  EXPECT_EQ(choose_tile({100, 100, 100}, device, 4096), 512U);
  ProductDevice const small{4, 12, 32, std::size_t{1} << 20U};
  auto const tile = choose_tile({60000, 60000, 60000}, small, 4096);
  EXPECT_LT(tile, 512U);
  EXPECT_NO_THROW(plan_product(tiles_of({60000, 60000, 60000}, tile), small));
}

TEST(ProductTraffic, IsNeverLessThanEachNumberOnce) {
  EXPECT_EQ(min_traffic({100, 200, 300}, 4, {1e9}), 4.0 * 300 * 300);
  EXPECT_NEAR(min_traffic({1000, 1000, 1000}, 4, {4.0 * 100}), 4.0 * (2e9 / 10.0 - 200.0), 1.0);
  std::vector<double> const memories = {4.0 * 25, 4.0 * 100, 4.0 * 25};
  EXPECT_NEAR(min_traffic({1000, 1000, 1000}, 4, memories), 4.0 * (2e9 / 10.0 - 300.0), 1.0);
}

} // namespace
} // namespace varve
