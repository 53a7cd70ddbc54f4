#pragma once

#include "products/product_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varve {

inline constexpr std::size_t most_shared_tiles = std::size_t{1} << 22U;

/// The number of tiles of A and B of a product; each has a word in the directory of each rank.
std::size_t num_tiles(ProductTiles const& tiles);

/// The number of a tile among them.
std::size_t number_of_tile(ProductTiles const& tiles, TileKey const& key);

/// Records which devices of a machine hold which tiles of a product, so that devices can copy tiles from each other:
/// words in memory that all ranks of the machine share, one for each tile on each rank. A word has the slot of the tile
/// on that rank, whether the tile is coming or ready, how many ranks copy it, and a generation, which changes each time
/// the tile comes.
///
/// A reader pins a tile by an atomic exchange that succeeds only while the tile is ready. The owner closes a tile
/// before it reassigns the slot: from then on no reader can pin it, and the owner waits for those that have. So a
/// reader never copies from a slot that holds, or is about to hold, another tile. Only the ticket of its generation
/// makes a tile ready; a late publish() has no effect after the tile was closed. (Wang, Wu, Xu, Xiao and Yang, "BLASX",
/// 2016, treat the tiles of all devices of a machine as one cache, by a protocol on the host.)
class TileDirectory {
public:
  static constexpr std::size_t most_slots = std::size_t{1} << 22U;

  /// `own`: the words of this rank; `peers`: the words of other ranks, nearest first, each of the same length. All are
  /// zero at the start and must outlive this object. One thread calls begin() and close(), any thread the other
  /// functions.
  TileDirectory(std::span<std::uint64_t> own, std::vector<std::uint64_t*> peers);

  /// State of a tile on other ranks.
  enum class Place { nowhere, coming, ready };
  Place look(std::size_t tile) const;

  /// Announces that this rank brings a tile, if the tile is absent here and no rank still copies it.
  void claim(std::size_t tile);

  /// A tile will be in a slot of this rank; an old copy must be closed before. Returns the ticket for publish().
  std::uint64_t begin(std::size_t tile, std::size_t slot);

  /// Makes the tile of a ticket ready: other ranks may copy it. Returns false if it was closed meanwhile.
  bool publish(std::size_t tile, std::uint64_t ticket);

  /// Withdraws a tile of this rank. Returns once no rank copies it: the slot may then be overwritten. Throws
  /// ResourceError if a rank has not finished within `patience` seconds.
  void close(std::size_t tile, double patience = 60.0);

  /// Closes all tiles of this rank, including claimed ones.
  void close_all();

  /// A tile on another rank, which stays unchanged until release().
  struct Pin {
    std::size_t peer = 0; ///< index in `peers`
    std::size_t slot = 0;
  };

  /// Pins a tile on the nearest rank that has it ready; nullopt if there is none.
  std::optional<Pin> pin(std::size_t tile);
  void release(std::size_t tile, Pin const& pin);

private:
  std::span<std::uint64_t> own_;
  std::vector<std::uint64_t*> peers_;
};

} // namespace varve
