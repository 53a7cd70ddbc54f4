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

/// How A and B share a cache if the tiles of one of them are used again and again, while those of the other pass by.
struct TileShares {
  TileKey::Operand kept = TileKey::Operand::a;
  std::size_t num_kept = 0;   ///< slots for tiles of it; the others have the rest
  std::uint64_t patience = 0; ///< a tile that was not used during so many searches will not be used again
};

/// Which tiles lie in which of a number of equal slots; the tile that was used longest ago makes room: with shares, one
/// of the operand that has more than its share, but first a kept one that will not be used again. Keeps no numbers
/// itself. A slot has one tile from the call of replace() that names it to the next, so that no tile is served from a
/// slot that has been given away.
class TileCache {
public:
  explicit TileCache(std::size_t num_slots, std::optional<TileShares> const& shares = std::nullopt)
      : shares_(shares), tiles_(num_slots) {}

  /// The slot of a tile, which counts as used now; nullopt if no slot has it.
  std::optional<std::size_t> find(TileKey const& key);

  /// True if a slot has the tile; does not count as use.
  bool has(TileKey const& key) const { return slots_.contains(key); }

  /// Gives a tile that no slot has the slot whose tile makes room, or an empty one. Slots that are held keep
  /// theirs; throws std::logic_error if all are held.
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

  /// All tiles are in one list without shares.
  Uses& uses_of(TileKey::Operand operand) { return uses_[shares_ && operand == shares_->kept ? 1 : 0]; }
  std::uint64_t num_searches() const { return num_hits_ + num_misses_; }
  std::optional<std::size_t> oldest(Uses const& uses) const;
  std::size_t slot_to_replace(TileKey::Operand operand) const;

  std::optional<TileShares> shares_;
  std::vector<Tile> tiles_;              ///< one per slot
  std::map<TileKey, std::size_t> slots_; ///< the slot of each tile
  std::array<Uses, 2> uses_;             ///< of kept tiles the second, of others the first
  std::size_t num_used_ = 0;             ///< slots that have ever had a tile
  std::uint64_t num_hits_ = 0;
  std::uint64_t num_misses_ = 0;
};

/// A tile of A or B for a step of a task.
struct PlannedTile {
  TileKey key;
  std::size_t slot = 0;    ///< where it lies on the device
  bool is_brought = false; ///< before the step it is read and packed into the slot
};

/// A step of a task.
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
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t num_lanes = 1;
  std::size_t num_slots = 2;
  ProductOrder order = {}; ///< of the tasks
};

/// The steps of a device in the order in which it takes them, and which tiles they find or bring: lanes take turns, a
/// step of one task each, so that neighbouring tasks use a tile while it is kept. Steps may be planned ahead of those
/// that are carried out, as long as they are carried out in their order: a slot holds what the plan says at that step.
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
