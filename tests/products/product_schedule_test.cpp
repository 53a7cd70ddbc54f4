#include "products/product_schedule.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// All steps of these tasks.
std::vector<PlannedStep> steps_of(ProductSchedule& schedule, std::vector<std::uint64_t> const& tasks) {
  std::deque<std::uint64_t> left(tasks.begin(), tasks.end());
  auto const next_task = [&]() -> std::optional<std::uint64_t> {
    if (left.empty()) return std::nullopt;
    auto const task = left.front();
    left.pop_front();
    return task;
  };
  std::vector<PlannedStep> steps;
  while (auto const step = schedule.next(next_task)) steps.push_back(*step);
  EXPECT_FALSE(schedule.next(next_task));
  return steps;
}

ScheduleSettings settings(ProductShape const& shape, std::uint64_t tile, std::size_t num_lanes, std::size_t num_slots) {
  return {tiles_of(shape, tile), false, true, num_lanes, num_slots};
}

TEST(ProductSchedules, GiveEveryStepOfEveryTaskInTheTurnsOfTheLanes) {
  auto const given = settings({300, 200, 500}, 64, 3, 8);
  ProductSchedule schedule(given);
  auto const tasks = order_of_tasks(given.tiles);
  schedule.begin(true);
  auto const steps = steps_of(schedule, tasks);
  ASSERT_EQ(steps.size(), tasks.size() * given.tiles.num_steps());
  std::map<std::size_t, std::optional<std::uint64_t>> task_of_lane;
  std::map<std::uint64_t, std::uint64_t> num_steps;
  for (std::size_t place = 0; place < steps.size(); ++place) {
    auto const& step = steps[place];
    auto const number = num_steps[step.task]++;
    auto& task = task_of_lane[step.lane];
    EXPECT_EQ(step.is_first, !task.has_value());
    EXPECT_EQ(task.value_or(step.task), step.task);
    EXPECT_EQ(step.a.key.step, number);
    EXPECT_EQ(step.b.key.step, number);
    EXPECT_EQ(step.is_last, number + 1 == given.tiles.num_steps());
    task = step.is_last ? std::nullopt : std::optional(step.task);
    if (place < 3) {
      EXPECT_EQ(step.lane, place);
    }
  }
  EXPECT_EQ(num_steps.size(), tasks.size());
}

// The plan, carried out in its order: every step finds in the slots of A and B the tiles that it needs.
TEST(ProductSchedules, FindInASlotWhatWasBroughtToIt) {
  for (std::size_t const num_slots : {2U, 3U, 7U, 100U}) {
    auto const given = settings({300, 260, 400}, 64, 4, num_slots);
    ProductSchedule schedule(given);
    schedule.begin(true);
    std::map<std::size_t, TileKey> slots;
    double brought = 0.0;
    for (auto const& step : steps_of(schedule, order_of_tasks(given.tiles))) {
      for (auto const& tile : {step.a, step.b}) {
        EXPECT_LT(tile.slot, num_slots);
        if (tile.is_loaded) {
          slots[tile.slot] = tile.key;
          brought += static_cast<double>(schedule.extent_of(tile.key).block.size());
        }
        EXPECT_EQ(slots.at(tile.slot), tile.key);
      }
      EXPECT_NE(step.a.slot, step.b.slot);
      EXPECT_EQ(step.a.key.tile, given.tiles.row_tile(step.task));
      EXPECT_EQ(step.b.key.tile, given.tiles.column_tile(step.task));
    }
    EXPECT_EQ(schedule.loaded_numbers(), brought);
  }
}

/// What a product brings in the order that its memory plans: parts of what it would bring without a cache, and of the
/// least traffic.
std::pair<double, double> traffic_of(ProductShape const& shape, std::uint64_t tile, double memory) {
  auto const tiles = tiles_of(shape, tile);
  auto const plan = plan_product(tiles, {4, 12, 32, static_cast<std::size_t>(memory)});
  ProductSchedule schedule({tiles, false, false, plan.num_lanes, plan.num_slots, plan.order});
  schedule.begin(true);
  steps_of(schedule, order_of_tasks(tiles, plan.order));
  auto const least = min_traffic(shape, 4, {static_cast<double>(plan.bytes())});
  return {schedule.loaded_numbers() / schedule.all_numbers(), 4.0 * schedule.loaded_numbers() / least};
}

TEST(ProductSchedules, BringLittleIfTheMemoryIsShort) {
  auto const [part_of_small, times_least_of_small] = traffic_of({3750, 3750, 3750}, 512, 0.0365 * 0x1p30);
  EXPECT_LT(part_of_small, 0.27);
  EXPECT_LT(times_least_of_small, 2.1);
  auto const [part_of_bands, times_least_of_bands] = traffic_of({60000, 60000, 60000}, 8192, 8 * 0x1p30);
  EXPECT_LT(part_of_bands, 0.28);
  EXPECT_LT(times_least_of_bands, 2.2);
  EXPECT_LT(traffic_of({60000, 60000, 60000}, 4096, 8 * 0x1p30).second, 1.9);
  EXPECT_LT(traffic_of({60000, 60000, 60000}, 2048, 8 * 0x1p30).second, 1.55);
  auto const [part_of_blocks, times_least_of_blocks] = traffic_of({60000, 60000, 60000}, 4096, 0x1p30);
  EXPECT_LT(part_of_blocks, 0.35);
  EXPECT_LT(times_least_of_blocks, 1.4);
}

TEST(ProductSchedules, ForgetTilesThatNeverCame) {
  auto const given = settings({128, 128, 128}, 64, 2, 100);
  ProductSchedule schedule(given);
  for (bool const keeps : {true, false}) {
    schedule.begin(true);
    steps_of(schedule, {0, 1});
    EXPECT_EQ(schedule.num_kept(0), 4U);
    schedule.begin(keeps);
    EXPECT_EQ(schedule.num_kept(0), keeps ? 4U : 0U);
  }
}

TEST(ProductSchedules, SayWhereATileLiesInItsMatrix) {
  auto const given = settings({100, 90, 70}, 64, 1, 4); // B is stored transposed
  ProductSchedule const schedule(given);
  auto const a = schedule.extent_of({TileKey::Operand::a, 1, 1});
  EXPECT_EQ(a.block.first_row, 64U);
  EXPECT_EQ(a.block.num_rows, 36U);
  EXPECT_EQ(a.block.first_column, 64U);
  EXPECT_EQ(a.block.num_columns, 6U);
  EXPECT_EQ(a.shape.line_stride, 6);
  EXPECT_EQ(a.shape.depth_stride, 1);
  auto const b = schedule.extent_of({TileKey::Operand::b, 1, 0});
  EXPECT_EQ(b.block.first_row, 64U);
  EXPECT_EQ(b.block.num_rows, 26U);
  EXPECT_EQ(b.block.num_columns, 64U);
}

} // namespace
} // namespace varve
