#include "products/product_tiles.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

namespace varve {
namespace {

constexpr std::size_t max_lanes = 4;
constexpr std::size_t wanted_slots = 8;
constexpr std::size_t fewest_slots = 2;
constexpr std::size_t longest_block = 4;   ///< edge of a block, in tiles of C
constexpr std::uint64_t fewest_rounds = 8; ///< least tasks per lane if there are more than max_lanes lanes
constexpr std::size_t passing_slots = 4;   ///< slots of tiles that a band streams: one in use, others in flight

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

/// The order of tasks by bands of rows of tiles, or of columns.
std::vector<std::uint64_t> tasks_of_bands(ProductTiles const& tiles, ProductOrder const& bands) {
  auto const num_lines = bands.is_of_columns ? tiles.num_column_tiles() : tiles.num_row_tiles();
  auto const length = bands.is_of_columns ? tiles.num_row_tiles() : tiles.num_column_tiles();
  std::vector<std::uint64_t> order;
  order.reserve(tiles.num_tasks());
  bool is_backwards = false;
  for (std::uint64_t first = 0; first < num_lines; first += bands.band) {
    for (std::uint64_t step = 0; step < length; ++step) {
      auto const place = is_backwards ? length - 1 - step : step;
      for (auto line = first; line < std::min<std::uint64_t>(first + bands.band, num_lines); ++line) {
        auto const row = bands.is_of_columns ? place : line;
        order.push_back(row * tiles.num_column_tiles() + (bands.is_of_columns ? line : place));
      }
    }
    is_backwards = !is_backwards;
  }
  return order;
}

/// Memory of each task and tile; the numbers of tasks and tiles are still 0.
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

std::uint64_t divided_up(std::uint64_t number, std::uint64_t part) { return (number + part - 1) / part; }

/// The plan with the least traffic, so far, for the memory of a device.
class BestPlan {
public:
  BestPlan(ProductTiles const& tiles, ProductMemory const& parts, std::size_t limit)
      : tiles_(tiles), parts_(parts), limit_(limit) {}

  /// Tries bands whose tiles of A (or B) all stay. The width of a band is the number of concurrent tasks or a multiple;
  /// with a multiple, a streamed tile stays until the whole band has used it.
  void try_bands(std::size_t lanes) {
    auto const slots = slots_beside(lanes);
    for (bool const is_of_columns : {false, true}) {
      auto const num_lines = is_of_columns ? tiles_.num_column_tiles() : tiles_.num_row_tiles();
      auto const steps = tiles_.num_steps();
      if (slots < wanted_slots || lanes > num_lines) continue;
      auto const fitting = (slots - passing_slots) / steps; // lines whose tiles of all steps stay
      if (fitting < lanes) continue;
      auto const widest = std::max(lanes, (fitting - 1) / lanes * lanes);
      auto const num_bands = divided_up(num_lines, widest);
      auto const band = rounded_up(divided_up(num_lines, num_bands), lanes);
      auto const kept = is_of_columns ? tiles_.shape.columns : tiles_.shape.rows;
      auto const passing = is_of_columns ? tiles_.shape.rows : tiles_.shape.columns;
      take(static_cast<double>(kept) + static_cast<double>(num_bands) * static_cast<double>(passing), lanes,
           {static_cast<std::size_t>(band), is_of_columns, true});
    }
  }

  /// Tries blocks of rows x columns concurrent tiles of C.
  void try_block(std::size_t rows, std::size_t columns) {
    auto const lanes = rows * columns;
    if (slots_beside(lanes) < wanted_slots || rows > tiles_.num_row_tiles() || columns > tiles_.num_column_tiles())
      return;
    if (lanes > max_lanes && tiles_.num_tasks() < fewest_rounds * lanes) return;
    auto const of_a =
        static_cast<double>(tiles_.shape.rows) * static_cast<double>(divided_up(tiles_.num_column_tiles(), columns));
    auto const of_b =
        static_cast<double>(tiles_.shape.columns) * static_cast<double>(divided_up(tiles_.num_row_tiles(), rows));
    take(of_a + of_b, lanes, {rows, false, false});
  }

  /// The plan; empty if none fits.
  std::optional<ProductMemory> const& best() const { return best_; }

private:
  std::size_t slots_beside(std::size_t lanes) const {
    auto const needed = capped_multiply(lanes, parts_.lane_bytes);
    return needed > limit_ ? 0 : (limit_ - needed) / parts_.slot_bytes;
  }

  /// Takes a plan if it is better. `lines`: rows of op(A) and columns of op(B) that are copied to the device, counted
  /// as often as copied. More than max_lanes concurrent tasks must save a tenth.
  void take(double lines, std::size_t lanes, ProductOrder const& order) {
    if (best_ && lines >= (lanes > std::max(max_lanes, best_->num_lanes) ? 0.9 : 1.0) * lines_) return;
    lines_ = lines;
    best_ = parts_;
    best_->num_lanes = lanes;
    best_->num_slots = static_cast<std::size_t>(std::min<std::uint64_t>(slots_beside(lanes), num_tiles(tiles_)));
    best_->order = order;
  }

  ProductTiles tiles_;
  ProductMemory parts_;
  std::size_t limit_;
  double lines_ = 0.0;
  std::optional<ProductMemory> best_;
};

/// The plan with the least traffic for a memory that does not hold all tiles.
std::optional<ProductMemory> min_plan(ProductTiles const& tiles, ProductMemory const& parts, std::size_t limit) {
  BestPlan plan(tiles, parts, limit);
  for (auto lanes = max_lanes; lanes > 1; --lanes) plan.try_bands(lanes);
  for (std::size_t rows = 1; rows <= longest_block; ++rows)
    for (std::size_t columns = 1; columns <= longest_block; ++columns)
      if (rows * columns > 1) plan.try_block(rows, columns);
  return plan.best();
}

} // namespace

ProductShape shape_of_product(ProductSide const& a, ProductSide const& b, std::optional<ProductSide> const& added,
                              std::size_t element_size) {
  auto const sizes = [](ProductSide const& side) {
    return side.is_transposed ? std::pair(side.num_columns, side.num_rows) : std::pair(side.num_rows, side.num_columns);
  };
  auto const [rows, depth] = sizes(a);
  auto const [depth_of_b, columns] = sizes(b);
  auto const shown = [](ProductSide const& side) { return side.is_transposed ? " transposed" : ""; };
  if (depth_of_b != depth) {
    fail<InputError>("{}{} has {} rows, expected {}, the columns of {}{}", b.place, shown(b), depth_of_b, depth,
                     a.place, shown(a));
  }
  if (added && (added->num_rows != rows || added->num_columns != columns)) {
    fail<InputError>("{} has {} x {} numbers, expected {} x {} as in the product", added->place, added->num_rows,
                     added->num_columns, rows, columns);
  }
  constexpr std::uint64_t max_bytes = std::uint64_t{1} << 60U;
  if (capped_multiply(capped_multiply(rows, columns), element_size) > max_bytes)
    fail<InputError>("a product of {} x {} numbers is too large for a file", rows, columns);
  return {rows, columns, depth};
}

std::uint64_t num_tiles(ProductTiles const& tiles) {
  return capped_multiply(capped_add(tiles.num_row_tiles(), tiles.num_column_tiles()), tiles.num_steps());
}

ProductTiles tiles_of(ProductShape const& shape, std::uint64_t tile) {
  constexpr std::uint64_t shortest_step = 64; // each step of a task is a launch
  constexpr std::uint64_t usual_step = 512;   // as fast as longer steps, which need more memory
  if (tile < 1 || tile > largest_product_tile)
    fail<UsageError>("a tile has {} rows, expected 1 to {}", tile, largest_product_tile);
  ProductTiles const tiles{shape, tile, std::max(tile / 4, std::clamp(tile, shortest_step, usual_step))};
  auto const num_tasks = checked_multiply(tiles.num_row_tiles(), tiles.num_column_tiles());
  if (!num_tasks || *num_tasks > max_product_tasks) {
    fail<UsageError>("a product of {} x {} numbers has too many tiles of {} rows, expected no more than {}", shape.rows,
                     shape.columns, tile, max_product_tasks);
  }
  return tiles;
}

std::vector<std::uint64_t> order_of_tasks(ProductTiles const& tiles, ProductOrder const& bands) {
  if (bands.band > 0) return tasks_of_bands(tiles, bands);
  std::vector<std::uint64_t> order;
  order.reserve(tiles.num_tasks());
  append_in_order(tiles, {0, tiles.num_row_tiles(), 0, tiles.num_column_tiles()}, order);
  return order;
}

double min_traffic(ProductShape const& shape, std::size_t element_size, std::vector<double> const& memories) {
  auto const rows = static_cast<double>(shape.rows);
  auto const columns = static_cast<double>(shape.columns);
  auto const depth = static_cast<double>(shape.depth);
  auto const size = static_cast<double>(element_size);
  auto const once = (rows + columns) * depth;
  if (memories.empty()) return size * once;
  auto const most = std::ranges::max(memories) / size; // a product copies least where the memory is largest
  auto const all = std::accumulate(memories.begin(), memories.end(), 0.0) / size;
  auto const bound = 2.0 * rows * columns * depth / std::sqrt(most) - 2.0 * all;
  return size * std::max(once, bound);
}

ProductMemory plan_product(ProductTiles const& tiles, ProductDevice const& device) {
  auto memory = parts_of(tiles, device);
  auto const limit = device.memory_limit;
  auto const fits = [&](std::size_t lanes, std::size_t slots) {
    return capped_add(capped_multiply(lanes, memory.lane_bytes), capped_multiply(slots, memory.slot_bytes)) <= limit;
  };
  auto const all_tiles = num_tiles(tiles);
  memory.num_lanes = std::min<std::uint64_t>(max_lanes, tiles.num_tasks());
  while (memory.num_lanes > 1 && !fits(memory.num_lanes, std::min<std::uint64_t>(wanted_slots, all_tiles)))
    --memory.num_lanes;
  if (!fits(memory.num_lanes, fewest_slots)) {
    fail<ResourceError>(
        "a product in tiles of {} rows needs {} bytes on the device, but may take {}; try a smaller --tile", tiles.tile,
        memory.lane_bytes + fewest_slots * memory.slot_bytes, limit);
  }
  auto const rest = limit - memory.num_lanes * memory.lane_bytes;
  memory.num_slots = std::clamp<std::uint64_t>(rest / memory.slot_bytes, fewest_slots,
                                               std::max<std::uint64_t>(all_tiles, fewest_slots));
  if (memory.num_slots >= all_tiles || memory.num_lanes == 1) return memory;
  auto const plan = min_plan(tiles, memory, limit);
  return plan ? *plan : memory;
}

std::uint64_t choose_tile(ProductShape const& shape, ProductDevice const& device, std::uint64_t largest) {
  constexpr std::uint64_t fewest_tasks = 16;
  constexpr std::uint64_t smallest_for_tasks = 512;
  constexpr std::uint64_t smallest = 16;
  std::uint64_t tile = largest;
  for (; tile > smallest; tile /= 2) {
    ProductTiles const tiles = tiles_of(shape, tile);
    auto const memory = parts_of(tiles, device);
    auto const needed = max_lanes * memory.lane_bytes + wanted_slots * memory.slot_bytes;
    bool const has_tasks = tiles.num_tasks() >= fewest_tasks || tile <= smallest_for_tasks;
    if (has_tasks && needed <= device.memory_limit) return tile;
    bool const has_most =
        checked_multiply(2 * tiles.num_row_tiles(), 2 * tiles.num_column_tiles()).value_or(max_product_tasks + 1) >
        max_product_tasks;
    if (has_most) return tile;
  }
  return tile;
}

namespace {

/// Computes alpha * sum + beta * added for a row.
template <class Scalar>
void finish_row(TileSums<Scalar> const& tile, std::uint64_t row, ProductScaling const& scaling, Scalar const* added,
                Scalar* values) {
  auto const num_columns = tile.block.num_columns;
  auto const block_size = tile.block_rows * tile.block_columns;
  auto const* const first = tile.sums + row / tile.block_rows * tile.blocks_across() * block_size +
                            row % tile.block_rows * tile.block_columns;
  for (std::uint64_t begin = 0; begin < num_columns; begin += tile.block_columns) {
    auto const* const sums = first + begin * tile.block_rows;
    auto const count = std::min<std::uint64_t>(tile.block_columns, num_columns - begin);
    for (std::uint64_t column = 0; column < count; ++column) {
      auto const sum = static_cast<double>(sums[column]);
      double const value =
          added == nullptr ? scaling.alpha * sum
                           : std::fma(scaling.alpha, sum, scaling.beta * static_cast<double>(added[begin + column]));
      values[begin + column] = static_cast<Scalar>(value) + Scalar(0);
    }
  }
}

template <class Scalar>
void require_finite(MatrixBlock const& block, std::uint64_t row, Scalar const* values) {
  if (all_finite(values, static_cast<std::size_t>(block.num_columns))) return;
  for (std::uint64_t column = 0; column < block.num_columns; ++column) {
    if (std::isfinite(values[column])) continue;
    fail<InputError>("the number of the product in row {}, column {} (from 0) is {}: its sum is too large for {}",
                     block.first_row + row, block.first_column + column, values[column],
                     std::is_same_v<Scalar, float> ? "float; try --precision double" : "double");
  }
}

} // namespace

template <class Scalar>
std::uint64_t finish_tile(TileSums<Scalar> const& sums, ProductScaling const& scaling, Scalar const* added,
                          Scalar* values) {
  auto const& block = sums.block;
  std::atomic<std::uint64_t> hash = 0;
  for_each_rows(block, [&](std::uint64_t first, std::uint64_t last) {
    std::uint64_t part = 0;
    for (auto row = first; row < last; ++row) {
      auto const place = row * block.num_columns;
      finish_row(sums, row, scaling, added == nullptr ? nullptr : added + place, values + place);
      require_finite(block, row, values + place);
      part += hash_of_row(block, row, values + place);
    }
    hash += part;
  });
  return hash;
}
template std::uint64_t finish_tile(TileSums<float> const&, ProductScaling const&, float const*, float*);
template std::uint64_t finish_tile(TileSums<double> const&, ProductScaling const&, double const*, double*);

} // namespace varve
