#pragma once

#include "products/product_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varve {

inline constexpr std::size_t most_shared_tiles = std::size_t{1} << 22U;

/// The tiles of A and B that a product may keep: each has a word in the directory of each rank.
std::size_t num_tiles(ProductTiles const& tiles);

/// The number of a tile among them.
std::size_t number_of_tile(ProductTiles const& tiles, TileKey const& key);

/// Which devices of a machine hold which tiles of a product, so that one copies a tile from another: words in memory
/// that all its ranks share, one for each tile on each rank. A word tells the slot of the tile on that rank, whether
/// the tile is on its way there or ready, how many ranks copy from it, and a generation, which is another one each time
/// the tile comes.
///
/// A reader pins a tile: one atomic exchange that succeeds only while the tile is ready. The owner closes a tile before
/// it gives its slot away: from then on no reader can pin it, and the owner waits for those that have. So a reader
/// never copies from a slot that holds, or is about to hold, something else. A tile becomes ready by the ticket of its
/// generation only; a late message that it is ready does nothing once it was closed. (Wang, Wu, Xu, Xiao and Yang,
/// "BLASX", 2016, keep the tiles of all devices of a machine as one cache, by a protocol on the host.)
class TileDirectory {
public:
  static constexpr std::size_t most_slots = std::size_t{1} << 22U;

  /// `own`: the words of this rank; `peers`: those of other ranks, nearest first, each as many. All are zero at the
  /// start and must outlive this object. One thread calls begin() and close(), any threads the other functions.
  TileDirectory(std::span<std::uint64_t> own, std::vector<std::uint64_t*> peers);

  /// What is known of a tile on other ranks.
  enum class Place { nowhere, coming, ready };
  Place look(std::size_t tile) const;

  /// Tells others that this rank brings a tile, if its word says nothing of it yet.
  void claim(std::size_t tile);

  /// A tile comes to a slot of this rank, after close() if it was there before. Returns the ticket for publish().
  std::uint64_t begin(std::size_t tile, std::size_t slot);

  /// The tile of a ticket is ready: others may copy it. False if it was closed meanwhile.
  bool publish(std::size_t tile, std::uint64_t ticket);

  /// Takes a tile of this rank from the others. Returns once none copies it: the slot may be overwritten. Throws
  /// ResourceError if some rank has not finished within `patience` seconds.
  void close(std::size_t tile, double patience = 60.0);

  /// Closes all tiles of this rank, those that are claimed as well.
  void close_all();

  /// A tile on another rank, which stays as it is until release().
  struct Pin {
    std::size_t peer = 0; ///< place in `peers`
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
