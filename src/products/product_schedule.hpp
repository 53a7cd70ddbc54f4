#pragma once

#include "products/loose_tile.hpp"
#include "products/product_tiles.hpp"
#include "products/tile_cache.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace varve {

/// A tile of A or B for a step of a task.
struct PlannedTile {
  TileKey key;
  std::size_t slot = 0;          ///< where it lies on the device
  std::uint64_t first_block = 0; ///< the block of the slot with the first line of the task
  bool is_brought = false;       ///< before the step it is read and packed into the slot
};

/// A step of a task. Rows and columns are counted from the first line of the first blocks of a and b.
struct PlannedStep {
  std::size_t lane = 0;
  std::uint64_t task = 0;
  PlannedTile a;
  PlannedTile b;
  int num_rows = 0;
  int num_columns = 0;
  int depth = 0;
  bool is_first = false; ///< of its task
  bool is_last = false;
};

/// What a schedule depends on besides the tasks.
struct ScheduleSettings {
  ProductTiles tiles;
  std::uint64_t block_rows = 1; ///< lines of the blocks in which tiles of A are packed
  std::uint64_t block_columns = 1;
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t num_lanes = 1;
  std::size_t num_slots = 2;
  ProductOrder order = {}; ///< of the tasks
};

/// The steps of a device in the order in which it takes them, and which tiles they find or bring: lanes take turns, a
/// step of one task each, so that neighbouring tasks use a tile while it is kept. Steps may be planned ahead of those
/// that are carried out, as long as they are carried out in their order: a slot holds what the plan says at that step.
/// A quarter of a tile takes half of the lines of its tiles of A and B: of those on the device, or only these are
/// brought, from the beginning of a block on, so that its sums lie in the same places either way.
class ProductSchedule {
public:
  using Next = std::function<std::optional<std::uint64_t>()>;

  explicit ProductSchedule(ScheduleSettings const& settings);

  /// Begins a run. The tiles of the run before are kept, if `keeps_tiles`.
  void begin(bool keeps_tiles);

  /// The next step; nullopt if there is none and next_task() gives no task. It is called for a lane without task until
  /// it gives none.
  std::optional<PlannedStep> next(Next const& next_task);

  /// How many tiles of the inputs of a task are kept.
  std::uint64_t num_kept(std::uint64_t task) const;

  /// Where a tile lies in its matrix, and how its lines lie in the block that is read.
  TileExtent extent_of(TileKey const& key) const;

  /// The lines of a task's tile of A or B in its first step, from the first of the tile on.
  TileLines row_lines(std::uint64_t task) const { return lines_of(key_of(TileKey::Operand::a, task, 0)); }
  TileLines column_lines(std::uint64_t task) const { return lines_of(key_of(TileKey::Operand::b, task, 0)); }

  std::uint64_t num_hits() const { return cache_.num_hits(); }
  std::uint64_t num_misses() const { return cache_.num_misses(); }
  double brought_numbers() const { return brought_numbers_; }
  double all_numbers() const { return all_numbers_; } ///< that would be brought without a cache

private:
  /// The task of a lane, and its next step.
  struct Lane {
    std::optional<std::uint64_t> task;
    std::uint64_t step = 0;
  };

  PlannedStep plan(std::size_t lane_number);
  PlannedTile plan_tile(TileKey const& key);
  TileKey key_of(TileKey::Operand operand, std::uint64_t task, std::uint64_t step) const;
  TileLines lines_of(TileKey const& key) const;
  std::uint64_t width_of(TileKey const& key) const;
  std::uint64_t depth_of(std::uint64_t step) const;

  ScheduleSettings settings_;
  TileCache cache_;
  std::vector<Lane> lanes_;
  std::size_t turn_ = 0; ///< the lane whose turn it is
  bool has_tasks_ = true;
  double brought_numbers_ = 0.0;
  double all_numbers_ = 0.0;
};

} // namespace varve
