#include "products/product_tiles.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace varve {
namespace {

constexpr std::size_t most_lanes = 4;
constexpr std::size_t wanted_slots = 8;
constexpr std::size_t fewest_slots = 2;

constexpr std::uint64_t fewest_lines_to_cut = 16;

/// The lines of a half of a tile that has `count`. Large halves begin at chunks of files, or at blocks of GPUs.
TileLines lines_of(std::uint64_t count, TileHalf half) {
  if (half == TileHalf::whole) return {0, count};
  auto middle = (count + 1) / 2;
  for (std::uint64_t const unit : {128U, 512U})
    if (count >= 4 * unit) middle = ((count + 1) / 2 + unit - 1) / unit * unit;
  return half == TileHalf::first ? TileLines{0, middle} : TileLines{middle, count - middle};
}

/// Rows and columns of tiles.
struct TileRange {
  std::uint64_t first_row, num_rows, first_column, num_columns;
};

void append_in_order(ProductTiles const& tiles, TileRange const& range, std::vector<std::uint64_t>& order) {
  auto const [row, rows, column, columns] = range;
  if (rows == 1 && columns == 1) {
    order.push_back(row * tiles.num_column_tiles() + column);
  } else if (rows >= columns) {
    append_in_order(tiles, {row, rows / 2, column, columns}, order);
    append_in_order(tiles, {row + rows / 2, rows - rows / 2, column, columns}, order);
  } else {
    append_in_order(tiles, {row, rows, column, columns / 2}, order);
    append_in_order(tiles, {row, rows, column + columns / 2, columns - columns / 2}, order);
  }
}

std::uint64_t rounded_up(std::uint64_t number, std::uint64_t step) { return (number + step - 1) / step * step; }

/// Memory for each task and tile; no tasks and tiles yet.
ProductMemory parts_of(ProductTiles const& tiles, ProductDevice const& device) {
  auto const rows = std::min(tiles.tile, tiles.shape.rows);
  auto const columns = std::min(tiles.tile, tiles.shape.columns);
  auto const step = std::min(tiles.step, tiles.shape.depth);
  auto const padded_rows = rounded_up(rows, device.block_rows);
  auto const padded_columns = rounded_up(columns, device.block_columns);
  ProductMemory memory;
  memory.slot_bytes = std::max(padded_rows, padded_columns) * step * device.element_size;
  memory.lane_bytes = (padded_rows * padded_columns + std::max(rows, columns) * step) * device.element_size;
  return memory;
}

} // namespace

TileHalf ProductTiles::row_half(std::uint64_t task) const {
  if (!is_quarter(task)) return TileHalf::whole;
  return (task - num_tasks()) % 4 < 2 ? TileHalf::first : TileHalf::second;
}

TileHalf ProductTiles::column_half(std::uint64_t task) const {
  if (!is_quarter(task)) return TileHalf::whole;
  return (task - num_tasks()) % 2 == 0 ? TileHalf::first : TileHalf::second;
}

bool ProductTiles::can_be_cut(std::uint64_t tile_number) const {
  return row_lines(row_tile(tile_number), TileHalf::whole).count >= fewest_lines_to_cut &&
         column_lines(column_tile(tile_number), TileHalf::whole).count >= fewest_lines_to_cut;
}

bool ProductTiles::has_task(std::uint64_t task) const {
  return !is_quarter(task) || (task < 5 * num_tasks() && can_be_cut(tile_of(task)));
}

TileLines ProductTiles::row_lines(std::uint64_t row_tile_number, TileHalf half) const {
  return lines_of(std::min(tile, shape.rows - row_tile_number * tile), half);
}

TileLines ProductTiles::column_lines(std::uint64_t column_tile_number, TileHalf half) const {
  return lines_of(std::min(tile, shape.columns - column_tile_number * tile), half);
}

MatrixBlock ProductTiles::block(std::uint64_t task) const {
  auto const rows = row_lines(row_tile(task), row_half(task));
  auto const columns = column_lines(column_tile(task), column_half(task));
  return {row_tile(task) * tile + rows.first, rows.count, column_tile(task) * tile + columns.first, columns.count};
}

ProductTiles tiles_of(ProductShape const& shape, std::uint64_t tile) {
  constexpr std::uint64_t step = 512;         // rows and columns of the chunks in files
  constexpr std::uint64_t smallest_step = 64; // each step of a task is a launch
  if (tile < 1 || tile > largest_product_tile)
    throw UsageError(fmt::format("a tile has {} rows, expected 1 to {}", tile, largest_product_tile));
  ProductTiles const tiles{
      shape, tile, tile <= step ? std::max(tile, smallest_step) : step * std::max<std::uint64_t>(1, tile / (4 * step))};
  auto const num_tasks = checked_multiply(tiles.num_row_tiles(), tiles.num_column_tiles());
  if (!num_tasks || *num_tasks > most_product_tasks) {
    throw UsageError(fmt::format("a product of {} x {} numbers has too many tiles of {} rows, expected no more than {}",
                                 shape.rows, shape.columns, tile, most_product_tasks));
  }
  return tiles;
}

std::vector<std::uint64_t> order_of_tasks(ProductTiles const& tiles) {
  std::vector<std::uint64_t> order;
  order.reserve(tiles.num_tasks());
  append_in_order(tiles, {0, tiles.num_row_tiles(), 0, tiles.num_column_tiles()}, order);
  return order;
}

std::vector<std::uint64_t> cut_last(ProductTiles const& tiles, std::vector<std::uint64_t> const& tasks,
                                    std::size_t count) {
  std::vector<std::uint64_t> cut;
  auto const num_kept = tasks.size() - std::min(count, tasks.size());
  for (std::size_t place = 0; place < tasks.size(); ++place) {
    auto const task = tasks[place];
    if (place < num_kept || tiles.is_quarter(task) || !tiles.can_be_cut(task)) {
      cut.push_back(task);
    } else {
      for (std::uint64_t quarter = 0; quarter < 4; ++quarter) cut.push_back(tiles.first_quarter(task) + quarter);
    }
  }
  return cut;
}

double least_traffic(ProductShape const& shape, std::size_t element_size, double memory) {
  auto const rows = static_cast<double>(shape.rows);
  auto const columns = static_cast<double>(shape.columns);
  auto const depth = static_cast<double>(shape.depth);
  auto const size = static_cast<double>(element_size);
  auto const kept = memory / size;
  auto const once = (rows + columns) * depth;
  auto const bound = 2.0 * rows * columns * depth / std::sqrt(kept) - 2.0 * kept;
  return size * std::max(once, bound);
}

ProductMemory plan_product(ProductTiles const& tiles, ProductDevice const& device) {
  auto memory = parts_of(tiles, device);
  auto const limit = device.memory_limit;
  auto const fits = [&](std::size_t lanes, std::size_t slots) {
    return capped_add(capped_multiply(lanes, memory.lane_bytes), capped_multiply(slots, memory.slot_bytes)) <= limit;
  };
  auto const all_tiles =
      capped_multiply(capped_add(tiles.num_row_tiles(), tiles.num_column_tiles()), tiles.num_steps());
  memory.num_lanes = std::min<std::uint64_t>(most_lanes, tiles.num_tasks());
  while (memory.num_lanes > 1 && !fits(memory.num_lanes, std::min<std::uint64_t>(wanted_slots, all_tiles)))
    --memory.num_lanes;
  if (!fits(memory.num_lanes, fewest_slots)) {
    throw ResourceError(
        fmt::format("a product in tiles of {} rows needs {} bytes on the device, but may take {}; try a smaller --tile",
                    tiles.tile, memory.lane_bytes + fewest_slots * memory.slot_bytes, limit));
  }
  auto const rest = limit - memory.num_lanes * memory.lane_bytes;
  memory.num_slots = std::clamp<std::uint64_t>(rest / memory.slot_bytes, fewest_slots,
                                               std::max<std::uint64_t>(all_tiles, fewest_slots));
  return memory;
}

std::uint64_t choose_tile(ProductShape const& shape, ProductDevice const& device, std::uint64_t largest) {
  constexpr std::uint64_t fewest_tasks = 16;
  constexpr std::uint64_t smallest_for_tasks = 512;
  constexpr std::uint64_t smallest = 16;
  std::uint64_t tile = largest;
  for (; tile > smallest; tile /= 2) {
    ProductTiles const tiles = tiles_of(shape, tile);
    auto const memory = parts_of(tiles, device);
    auto const needed = most_lanes * memory.lane_bytes + wanted_slots * memory.slot_bytes;
    bool const has_tasks = tiles.num_tasks() >= fewest_tasks || tile <= smallest_for_tasks;
    if (has_tasks && needed <= device.memory_limit) return tile;
    bool const has_most =
        checked_multiply(2 * tiles.num_row_tiles(), 2 * tiles.num_column_tiles()).value_or(most_product_tasks + 1) >
        most_product_tasks;
    if (has_most) return tile;
  }
  return tile;
}

} // namespace varve
