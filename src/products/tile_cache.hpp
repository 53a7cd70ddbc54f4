#pragma once

#include "products/product_tiles.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

namespace varve {

/// A tile of an input of a product, or half of its lines.
struct TileKey {
  enum class Operand { a, b };

  Operand operand = Operand::a;
  std::uint64_t tile = 0; ///< row tile of op(A), or column tile of op(B)
  std::uint64_t step = 0;
  TileHalf half = TileHalf::whole;

  auto operator<=>(TileKey const&) const = default;
};

/// Which tiles lie in which of a number of equal slots; the tile that was used longest ago makes room. Keeps no numbers
/// itself. A slot has one tile from the call of replace() that names it to the next, so that no tile is served from a
/// slot that has been given away.
class TileCache {
public:
  explicit TileCache(std::size_t num_slots) : tiles_(num_slots) {}

  /// The slot of a tile, which counts as used now; nullopt if no slot has it.
  std::optional<std::size_t> find(TileKey const& key);

  /// True if a slot has the tile; does not count as use.
  bool has(TileKey const& key) const { return slots_.contains(key); }

  /// Gives a tile that no slot has the slot whose tile was used longest ago, or an empty one. Slots that are held keep
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
    std::list<std::size_t>::iterator use;
  };

  std::vector<Tile> tiles_;              ///< one per slot
  std::map<TileKey, std::size_t> slots_; ///< the slot of each tile
  std::list<std::size_t> uses_;          ///< slots with a tile, the one used longest ago first
  std::size_t num_used_ = 0;             ///< slots that have ever had a tile
  std::uint64_t num_hits_ = 0;
  std::uint64_t num_misses_ = 0;
};

} // namespace varve
