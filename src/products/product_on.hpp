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
/// A quarter of a tile takes half of the lines of its tiles of A and B: of those on the device, or only these are
/// brought, from the beginning of a block on, so that its sums lie in the same places either way.
/// Library: void for Varve's kernel, else LibraryProduct.
template <class ExecutionSpace, class Scalar, class Library = void>
class ProductOn final : public ProductEngine<Scalar> {
public:
  using typename ProductEngine<Scalar>::Next;
  using typename ProductEngine<Scalar>::Take;
  using Blocks =
      std::conditional_t<std::is_void_v<Library>, ProductBlocks<ExecutionSpace, Scalar>, Library>; ///< of packed tiles

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
    timeline_.restart();
    bool has_tasks = true;
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (auto& lane : lanes_) {
        if (!lane.task && has_tasks) {
          lane.begin = timeline_.now();
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
      count += is_kept(key_of(TileKey::Operand::a, task, step)) ? 1 : 0;
      count += is_kept(key_of(TileKey::Operand::b, task, step)) ? 1 : 0;
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

  ProductTimeline& timeline() override { return timeline_; }

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
    double begin = 0.0; ///< of the task, on the timeline
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

  /// Blocks of a packed tile.
  struct Blocked {
    std::size_t slot = 0;
    std::size_t first = 0;
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
  unsigned bit_of(Lane const& lane) const { return bit_of(number_of(lane)); }
  std::size_t number_of(Lane const& lane) const { return static_cast<std::size_t>(&lane - lanes_.data()); }

  /// Waits until the lanes of these bits have done all that they were given.
  void await(unsigned lanes) {
    if (kOnHost<ExecutionSpace> || lanes == 0) return;
    Stopwatch const time;
    auto const begin = timeline_.now();
    for (std::size_t number = 0; number < lanes_.size(); ++number) {
      if ((lanes & bit_of(number)) == 0) continue;
      lanes_[number].space.fence("varve::product");
      for (auto& slot : slots_) {
        slot.brought_by &= ~bit_of(number);
        slot.used_by &= ~bit_of(number);
      }
    }
    traffic_.wait_seconds += time.seconds();
    timeline_.add(ProductEvent::What::wait, begin, 0, 0);
  }

  /// Adds the next step of a lane's task to its sums.
  void advance(Lane& lane) {
    if (inputs_.before_step) inputs_.before_step();
    make_arrays(lane);
    auto const rows = lines_of(key_of(TileKey::Operand::a, *lane.task, lane.step));
    auto const columns = lines_of(key_of(TileKey::Operand::b, *lane.task, lane.step));
    auto const a = blocks_of(lane, key_of(TileKey::Operand::a, *lane.task, lane.step));
    cache_.hold(a.slot);
    auto const b = blocks_of(lane, key_of(TileKey::Operand::b, *lane.task, lane.step));
    cache_.release(a.slot);
    auto const depth = std::min(tiles_.step, tiles_.shape.depth - lane.step * tiles_.step);
    auto const num_rows = rows.first % Blocks::rows + rows.count;
    auto const num_columns = columns.first % Blocks::columns + columns.count;
    add_tile(lane, a, b, static_cast<int>(num_rows), static_cast<int>(num_columns), static_cast<int>(depth));
    slots_[a.slot].used_by |= bit_of(lane);
    slots_[b.slot].used_by |= bit_of(lane);
    if (++lane.step < tiles_.num_steps() || kOnHost<ExecutionSpace>) return;
    auto const num_pieces = num_blocks(num_rows, Blocks::rows) * num_blocks(num_columns, Blocks::columns);
    std::pair<std::size_t, std::size_t> const all(0, num_pieces * Blocks::rows * Blocks::columns);
    Kokkos::deep_copy(lane.space, Kokkos::subview(lane.sums_h, all), Kokkos::subview(lane.sums, all));
  }

  /// Rows and columns are counted from the first of the blocks a and b.
  void add_tile(Lane const& lane, Blocked const& a, Blocked const& b, int num_rows, int num_columns, int depth) {
    auto const from = [&](Blocked const& blocks, int width) -> ArrayView<Scalar const> {
      return part_of(slots_[blocks.slot].numbers, blocks.first * static_cast<std::size_t>(depth * width));
    };
    ArrayView<Scalar const> const from_a = from(a, Blocks::rows);
    ArrayView<Scalar const> const from_b = from(b, Blocks::columns);
    ArrayView<Scalar> const sums(lane.sums.data(), lane.sums.size());
    bool const is_first = lane.step == 0;
    int const row_blocks = (num_rows + Blocks::rows - 1) / Blocks::rows;
    int const column_blocks = (num_columns + Blocks::columns - 1) / Blocks::columns;
    if constexpr (!std::is_void_v<Library>) {
      Library::add_tile(lane.space, from_a, from_b, sums, row_blocks, column_blocks, depth, is_first);
    } else if constexpr (kOnHost<ExecutionSpace>) {
      add_tile_on_host(lane.space, AddTileOnHost<ExecutionSpace, Scalar>{from_a, from_b, sums, row_blocks,
                                                                         column_blocks, depth, is_first});
    } else {
      if constexpr (kHasScratchCopies) {
        TileStep<Scalar> const step{from_a, from_b, sums, num_rows, num_columns, depth, is_first};
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
    auto const begin = timeline_.now();
    auto const skipped_rows = lines_of(key_of(TileKey::Operand::a, *lane.task, 0)).first % Blocks::rows;
    auto const skipped_columns = lines_of(key_of(TileKey::Operand::b, *lane.task, 0)).first % Blocks::columns;
    auto const block = tiles_.block(*lane.task);
    auto const block_columns = Blocks::columns == 1 ? static_cast<std::size_t>(block.num_columns) : Blocks::columns;
    take(*lane.task,
         TileSums<Scalar>{lane.sums_h.data(), block, Blocks::rows, block_columns, skipped_rows, skipped_columns});
    traffic_.take_seconds += time.seconds();
    timeline_.add(ProductEvent::What::finish, begin, *lane.task, number_of(lane));
    timeline_.add(ProductEvent::What::task, lane.begin, *lane.task, number_of(lane));
    lane.task.reset();
  }

  /// What a task needs of A or B in a step.
  TileKey key_of(TileKey::Operand operand, std::uint64_t task, std::uint64_t step) const {
    bool const is_a = operand == TileKey::Operand::a;
    return {operand, is_a ? tiles_.row_tile(task) : tiles_.column_tile(task), step,
            is_a ? tiles_.row_half(task) : tiles_.column_half(task)};
  }

  static TileKey whole(TileKey key) {
    key.half = TileHalf::whole;
    return key;
  }

  bool is_kept(TileKey const& key) const { return cache_.has(key) || cache_.has(whole(key)); }

  TileLines lines_of(TileKey const& key) const {
    return key.operand == TileKey::Operand::a ? tiles_.row_lines(key.tile, key.half)
                                              : tiles_.column_lines(key.tile, key.half);
  }

  static std::uint64_t width_of(TileKey const& key) {
    return key.operand == TileKey::Operand::a ? Blocks::rows : Blocks::columns;
  }

  /// The first block of the lines that a step needs, in the whole tile if it is on the device.
  Blocked blocks_of(Lane& lane, TileKey const& key) {
    if (!cache_.has(whole(key))) return {slot_of(lane, key), 0};
    return {slot_of(lane, whole(key)), static_cast<std::size_t>(lines_of(key).first / width_of(key))};
  }

  /// The slot of a tile or of a half, which is brought to the device if it is not there.
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
    auto const lines_of_task = lines_of(key);
    auto const skipped = lines_of_task.first % width_of(key); // of the first block
    auto const first_line = key.tile * tiles_.tile + lines_of_task.first - skipped;
    auto const num_lines = lines_of_task.count + skipped;
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
    auto const begin = timeline_.now();
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
    timeline_.add(ProductEvent::What::copy, begin, *lane.task, number_of(lane));
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
  ProductTimeline timeline_;
};

} // namespace varve
