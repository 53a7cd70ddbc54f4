#pragma once

#include "products/product_tiles.hpp"
#include "products/tile_cache.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace varve {

/// How other ranks of a machine can copy the packed tiles of a rank.
struct PeerOffer {
  std::string layout; ///< how tiles are packed, and where they lie: only ranks of one layout share tiles
  std::string words;  ///< handle of the words of its TileDirectory
  std::string slots;  ///< handle of the memory of its tiles
  std::string device; ///< identity of its GPU; empty on hosts

  std::string obstacle; ///< why the rank offers no tiles; empty if it does
};

/// What came from other ranks of the machine, to this rank's device.
struct PeerTraffic {
  std::uint64_t num_copied = 0; ///< tiles
  std::uint64_t num_lost = 0;   ///< tiles that were expected there, but had to be read
  double bytes = 0.0;           ///< numbers of A and B
  double wait_seconds = 0.0; ///< for tiles that others bring, and for others to finish copies of tiles to be replaced
};

inline constexpr std::size_t most_shared_tiles = std::size_t{1} << 22U;

/// The tiles of A and B that a product may keep, and halves of them: each has a word in the directory of each rank.
std::size_t num_tiles(ProductTiles const& tiles);

/// The number of a tile among them.
std::size_t number_of_tile(ProductTiles const& tiles, TileKey const& key);

} // namespace varve
