#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/stopwatch.hpp"
#include "core/views.hpp"
#include "products/add_tile_cuda.hpp"
#include "products/add_tile_gpu.hpp"
#include "products/add_tile_host.hpp"
#include "products/pack_tile.hpp"
#include "products/product_engine.hpp"
#include "products/tile_cache.hpp"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// ProductEngine on an execution space. Tasks run side by side in *lanes*, which take turns, a step of one task each,
/// so that neighbouring tasks use a tile while it is kept. A lane of a GPU has an execution space instance of its own:
/// while the host reads a tile for one lane, the others copy and compute. Work of two lanes meets in the tiles alone: a
/// lane waits for the one that brings a tile before it uses it, and for all that use a tile before it replaces it.
template <class ExecutionSpace, class Scalar>
class ProductOn final : public ProductEngine<Scalar> {
public:
  using typename ProductEngine<Scalar>::Next;
  using typename ProductEngine<Scalar>::Take;
  using Blocks = ProductBlocks<ExecutionSpace, Scalar>;

  static ProductDevice device(std::size_t memory_limit) {
    return {sizeof(Scalar), Blocks::rows, Blocks::columns, memory_limit};
  }

  ProductOn(ProductTiles const& tiles, std::size_t memory_limit, ProductInputs<Scalar> inputs)
      : tiles_(tiles),
        inputs_(std::move(inputs)),
        memory_(plan_product(tiles, device(memory_limit))),
        cache_(memory_.num_slots),
        slots_(memory_.num_slots) {
    auto const spaces = instances(memory_.num_lanes);
    lanes_.resize(memory_.num_lanes);
    for (std::size_t number = 0; number < lanes_.size(); ++number) lanes_[number].space = spaces[number];
  }

  void run(Next const& next, Take const& take) override {
    ProfilingRegion const region("varve::product");
    bool has_tasks = true;
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (auto& lane : lanes_) {
        if (!lane.task && has_tasks) {
          lane.task = next();
          lane.step = 0;
          has_tasks = lane.task.has_value();
        }
        if (!lane.task) continue;
        is_busy = true;
        if (lane.step < tiles_.num_steps()) {
          advance(lane);
        } else {
          hand_over(lane, take);
        }
      }
    }
  }

  std::uint64_t num_kept(std::uint64_t task) const override {
    std::uint64_t count = 0;
    for (std::uint64_t step = 0; step < tiles_.num_steps(); ++step) {
      count += cache_.has({TileKey::Operand::a, tiles_.row_tile(task), step}) ? 1 : 0;
      count += cache_.has({TileKey::Operand::b, tiles_.column_tile(task), step}) ? 1 : 0;
    }
    return count;
  }

  ProductMemory const& memory() const override { return memory_; }

  ProductTraffic traffic() const override {
    auto traffic = traffic_;
    traffic.num_hits = cache_.num_hits();
    traffic.num_misses = cache_.num_misses();
    return traffic;
  }

private:
  using Numbers = DeviceArray<ExecutionSpace, Scalar>;
  using HostNumbers =
      Kokkos::View<Scalar*,
                   std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>>;

  /// A task at a time, and the memory for it. The arrays are made when the first task needs them.
  struct Lane {
    ExecutionSpace space;
    std::optional<std::uint64_t> task;
    std::uint64_t step = 0;
    Numbers sums;
    HostNumbers sums_h;  ///< on hosts the same memory
    Numbers loose;       ///< a tile as it was read
    HostNumbers loose_h; ///< on hosts the same memory
  };

  /// A packed tile on the device; lanes are bits.
  struct Slot {
    Numbers numbers;
    unsigned brought_by = 0; ///< the lane that may still be bringing it
    unsigned used_by = 0;    ///< lanes that may still be using it
  };

  /// What a tile holds of the matrix as it is stored.
  struct Extent {
    MatrixBlock block;
    LooseTile shape;
  };

  static std::vector<ExecutionSpace> instances(std::size_t count) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return std::vector<ExecutionSpace>(count); // a thread pool has no parts to compute side by side
    } else {
      return Kokkos::Experimental::partition_space(ExecutionSpace(), std::vector<int>(count, 1));
    }
  }

  static HostNumbers on_host(Numbers const& numbers, std::string const& label) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return HostNumbers(numbers);
    } else {
      return HostNumbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), numbers.size());
    }
  }

  static Numbers make_numbers(std::string const& label, std::size_t bytes) {
    return Numbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes / sizeof(Scalar));
  }

  static unsigned bit_of(std::size_t lane) { return 1U << lane; }
  unsigned bit_of(Lane const& lane) const { return bit_of(static_cast<std::size_t>(&lane - lanes_.data())); }

  /// Waits until the lanes of these bits have done all that they were given.
  void await(unsigned lanes) {
    if (kOnHost<ExecutionSpace> || lanes == 0) return;
    Stopwatch const time;
    for (std::size_t number = 0; number < lanes_.size(); ++number) {
      if ((lanes & bit_of(number)) == 0) continue;
      lanes_[number].space.fence("varve::product");
      for (auto& slot : slots_) {
        slot.brought_by &= ~bit_of(number);
        slot.used_by &= ~bit_of(number);
      }
    }
    traffic_.wait_seconds += time.seconds();
  }

  /// Adds the next step of a lane's task to its sums.
  void advance(Lane& lane) {
    make_arrays(lane);
    auto const block = tiles_.block(*lane.task);
    auto const a = slot_of(lane, {TileKey::Operand::a, tiles_.row_tile(*lane.task), lane.step});
    cache_.hold(a);
    auto const b = slot_of(lane, {TileKey::Operand::b, tiles_.column_tile(*lane.task), lane.step});
    cache_.release(a);
    auto const depth = std::min(tiles_.step, tiles_.shape.depth - lane.step * tiles_.step);
    auto const row_blocks = num_blocks(block.num_rows, Blocks::rows);
    auto const column_blocks = num_blocks(block.num_columns, Blocks::columns);
    add_tile(lane, a, b, block, static_cast<int>(depth));
    slots_[a].used_by |= bit_of(lane);
    slots_[b].used_by |= bit_of(lane);
    if (++lane.step < tiles_.num_steps() || kOnHost<ExecutionSpace>) return;
    auto const size = row_blocks * column_blocks * Blocks::rows * Blocks::columns;
    Kokkos::deep_copy(lane.space, Kokkos::subview(lane.sums_h, std::pair<std::size_t, std::size_t>(0, size)),
                      Kokkos::subview(lane.sums, std::pair<std::size_t, std::size_t>(0, size)));
  }

  void add_tile(Lane const& lane, std::size_t a, std::size_t b, MatrixBlock const& block, int depth) {
    ArrayView<Scalar const> const from_a(slots_[a].numbers.data(), slots_[a].numbers.size());
    ArrayView<Scalar const> const from_b(slots_[b].numbers.data(), slots_[b].numbers.size());
    ArrayView<Scalar> const sums(lane.sums.data(), lane.sums.size());
    bool const is_first = lane.step == 0;
    auto const row_blocks = static_cast<int>(num_blocks(block.num_rows, Blocks::rows));
    auto const column_blocks = static_cast<int>(num_blocks(block.num_columns, Blocks::columns));
    if constexpr (kOnHost<ExecutionSpace>) {
      add_tile_on_host(lane.space, AddTileOnHost<ExecutionSpace, Scalar>{from_a, from_b, sums, row_blocks,
                                                                         column_blocks, depth, is_first});
    } else {
      if constexpr (kHasScratchCopies) {
        TileStep<Scalar> const step{
            from_a, from_b,  sums, static_cast<int>(block.num_rows), static_cast<int>(block.num_columns),
            depth,  is_first};
        if (add_tile_on_cuda(lane.space, step, static_cast<int>(lanes_.size()))) return;
      }
      add_tile_on_gpu(lane.space, AddTileOnGpu<ExecutionSpace, Scalar>{from_a, from_b, sums, row_blocks, column_blocks,
                                                                       depth, is_first});
    }
  }

  void hand_over(Lane& lane, Take const& take) {
    await(bit_of(lane));
    if constexpr (kOnHost<ExecutionSpace>) lane.space.fence("varve::product");
    Stopwatch const time;
    take(*lane.task, TileSums<Scalar>{lane.sums_h.data(), tiles_.block(*lane.task), Blocks::rows, Blocks::columns});
    traffic_.take_seconds += time.seconds();
    lane.task.reset();
  }

  /// The slot of a tile, which is brought to the device if it is not there.
  std::size_t slot_of(Lane& lane, TileKey const& key) {
    auto const extent = extent_of(key);
    auto const bytes = static_cast<double>(extent.block.size() * sizeof(Scalar));
    traffic_.all_bytes += bytes;
    if (auto const found = cache_.find(key)) {
      await(slots_[*found].brought_by & ~bit_of(lane));
      return *found;
    }
    auto const number = cache_.replace(key);
    auto& slot = slots_[number];
    await((slot.brought_by | slot.used_by) & ~bit_of(lane));
    if (slot.numbers.size() == 0) slot.numbers = make_numbers("varve::product_tile", memory_.slot_bytes);
    bring(lane, key, extent, slot);
    traffic_.brought_bytes += bytes;
    return number;
  }

  /// Where a tile lies in its matrix, and how its lines lie in the block that is read.
  Extent extent_of(TileKey const& key) const {
    bool const is_a = key.operand == TileKey::Operand::a;
    auto const& shape = tiles_.shape;
    auto const first_line = key.tile * tiles_.tile;
    auto const num_lines = std::min(tiles_.tile, (is_a ? shape.rows : shape.columns) - first_line);
    auto const first = key.step * tiles_.step;
    auto const depth = std::min(tiles_.step, shape.depth - first);
    bool const lines_are_rows = is_a != (is_a ? inputs_.transpose_a : inputs_.transpose_b);
    auto const lines = static_cast<std::int64_t>(num_lines);
    auto const length = static_cast<std::int64_t>(depth);
    if (lines_are_rows) return {{first_line, num_lines, first, depth}, {lines, length, length, 1}};
    return {{first, depth, first_line, num_lines}, {lines, length, 1, lines}};
  }

  void bring(Lane& lane, TileKey const& key, Extent const& extent, Slot& slot) {
    await(bit_of(lane)); // the last tile may still be on its way from loose_h
    bool const is_a = key.operand == TileKey::Operand::a;
    Stopwatch const time;
    (is_a ? inputs_.a : inputs_.b)(extent.block, lane.loose_h.data());
    traffic_.read_seconds += time.seconds();
    auto const size = static_cast<std::size_t>(extent.block.size());
    if constexpr (!kOnHost<ExecutionSpace>) {
      std::pair<std::size_t, std::size_t> const all(0, size);
      Kokkos::deep_copy(lane.space, Kokkos::subview(lane.loose, all), Kokkos::subview(lane.loose_h, all));
    }
    ArrayView<Scalar const> const loose(lane.loose.data(), size);
    ArrayView<Scalar> const packed(slot.numbers.data(), slot.numbers.size());
    if (is_a) {
      pack_tile<Blocks::rows>(lane.space, extent.shape, loose, packed);
    } else {
      pack_tile<Blocks::columns>(lane.space, extent.shape, loose, packed);
    }
    slot.brought_by = bit_of(lane);
    slot.used_by = 0;
  }

  void make_arrays(Lane& lane) {
    if (lane.sums.size() > 0) return;
    auto const rows = std::min(tiles_.tile, tiles_.shape.rows);
    auto const columns = std::min(tiles_.tile, tiles_.shape.columns);
    auto const sums_bytes = num_blocks(rows, Blocks::rows) * num_blocks(columns, Blocks::columns) * Blocks::rows *
                            Blocks::columns * sizeof(Scalar);
    lane.sums = make_numbers("varve::product_sums", sums_bytes);
    lane.loose = make_numbers("varve::product_loose", memory_.lane_bytes - sums_bytes);
    lane.sums_h = on_host(lane.sums, "varve::product_sums_h");
    lane.loose_h = on_host(lane.loose, "varve::product_loose_h");
  }

  ProductTiles tiles_;
  ProductInputs<Scalar> inputs_;
  ProductMemory memory_;
  TileCache cache_;
  std::vector<Slot> slots_;
  std::vector<Lane> lanes_;
  ProductTraffic traffic_;
};

} // namespace varve
