#pragma once

#include "products/product_tiles.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <vector>

namespace varve {

/// A tile of an input of a product.
struct TileKey {
  enum class Operand { a, b };

  Operand operand = Operand::a;
  std::uint64_t tile = 0; ///< row tile of op(A), or column tile of op(B)
  std::uint64_t step = 0;

  auto operator<=>(TileKey const&) const = default;
};

/// Division of a cache between A and B if the tiles of one are reused often, while those of the other are streamed.
struct TileShares {
  TileKey::Operand kept = TileKey::Operand::a;
  std::size_t num_kept = 0;   ///< slots for its tiles; the other operand has the rest
  std::uint64_t patience = 0; ///< a tile that was not used during this many searches will not be used again
};

/// Maps tiles to equal slots, with replacement of the least recently used tile. With shares, it replaces a tile of the
/// operand that has more than its share, but first a kept tile that will not be used again. Stores no numbers. A slot
/// belongs to one tile from the call of replace() that returns it to the next, so that no tile is served from a slot
/// that was reassigned.
class TileCache {
public:
  explicit TileCache(std::size_t num_slots, std::optional<TileShares> const& shares = std::nullopt)
      : shares_(shares), tiles_(num_slots) {}

  /// The slot of a tile, which counts as a use; nullopt if no slot has it.
  std::optional<std::size_t> find(TileKey const& key);

  /// True if a slot has the tile; does not count as a use.
  bool has(TileKey const& key) const { return slots_.contains(key); }

  /// Assigns a slot, empty or with a tile that is replaced, to a tile that no slot has, and returns it. Held slots keep
  /// their tiles; throws std::logic_error if all are held.
  std::size_t replace(TileKey const& key);

  /// While a slot is held, it keeps its tile.
  void hold(std::size_t slot) { ++tiles_[slot].num_holders; }
  void release(std::size_t slot) { --tiles_[slot].num_holders; }

  std::size_t num_slots() const { return tiles_.size(); }
  std::uint64_t num_hits() const { return num_hits_; }
  std::uint64_t num_misses() const { return num_misses_; }

private:
  struct Tile {
    std::optional<TileKey> key;
    int num_holders = 0;
    std::uint64_t last_search = 0; ///< the number of the search that found or missed it
    std::list<std::size_t>::iterator use;
  };
  using Uses = std::list<std::size_t>; ///< slots with a tile, the one used longest ago first

  /// Without shares, all tiles are in one list.
  Uses& uses_of(TileKey::Operand operand) { return uses_[shares_ && operand == shares_->kept ? 1 : 0]; }
  std::uint64_t num_searches() const { return num_hits_ + num_misses_; }
  std::optional<std::size_t> oldest(Uses const& uses) const;
  std::size_t slot_to_replace(TileKey::Operand operand) const;

  std::optional<TileShares> shares_;
  std::vector<Tile> tiles_;              ///< one per slot
  std::map<TileKey, std::size_t> slots_; ///< the slot of each tile
  std::array<Uses, 2> uses_;             ///< [0]: streamed tiles; [1]: kept tiles
  std::size_t num_used_ = 0;             ///< slots that have ever had a tile
  std::uint64_t num_hits_ = 0;
  std::uint64_t num_misses_ = 0;
};

/// A tile of A or B for a step of a task.
struct PlannedTile {
  TileKey key;
  std::size_t slot = 0;   ///< its slot on the device
  bool is_loaded = false; ///< it must be read and packed into the slot before the step
};

struct PlannedStep {
  std::size_t lane = 0;
  std::uint64_t task = 0;
  PlannedTile a;
  PlannedTile b;
  int num_rows = 0;
  int num_columns = 0;
  int depth = 0;
  bool is_first = false; ///< the first step of its task
  bool is_last = false;
};

/// Parameters of a schedule besides the tasks.
struct ScheduleSettings {
  ProductTiles tiles;
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t num_lanes = 1;
  std::size_t num_slots = 2;
  ProductOrder order = {}; ///< order of the tasks
};

/// The steps of a device in order, and which tiles they find or bring: lanes alternate, each with a step of one task,
/// so that neighbouring tasks use a tile while it is kept. Steps may be planned ahead of their execution if they are
/// executed in order: the plan gives the content of each slot at each step.
class ProductSchedule {
public:
  using Next = std::function<std::optional<std::uint64_t>()>;

  explicit ProductSchedule(ScheduleSettings const& settings);

  /// Begins a run. If `keeps_tiles`, the tiles of the previous run stay.
  void begin(bool keeps_tiles);

  /// The next step; nullopt if there is none and next_task() returns no task. next_task() is called for each lane
  /// without a task until it returns none.
  std::optional<PlannedStep> next(Next const& next_task);

  /// The number of tiles of a task's inputs that are kept.
  std::uint64_t num_kept(std::uint64_t task) const;

  /// The block of a tile in its matrix, and the layout of its lines when the block is read.
  TileExtent extent_of(TileKey const& key) const;

  std::uint64_t num_hits() const { return cache_.num_hits(); }
  std::uint64_t num_misses() const { return cache_.num_misses(); }
  double loaded_numbers() const { return loaded_numbers_; }
  double all_numbers() const { return all_numbers_; } ///< numbers that would be brought without a cache

private:
  /// The task of a lane, and its next step.
  struct Stream {
    std::optional<std::uint64_t> task;
    std::uint64_t step = 0;
  };

  PlannedStep plan(std::size_t lane_number);
  PlannedTile plan_tile(TileKey const& key);
  TileKey key_of(TileKey::Operand operand, std::uint64_t task, std::uint64_t step) const;
  std::uint64_t depth_of(std::uint64_t step) const;

  ScheduleSettings settings_;
  TileCache cache_;
  std::vector<Stream> lanes_;
  std::size_t turn_ = 0; ///< the lane whose turn it is
  bool has_tasks_ = true;
  double loaded_numbers_ = 0.0;
  double all_numbers_ = 0.0;
};

} // namespace varve
