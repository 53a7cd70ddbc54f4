#include "products/peer_offer.hpp"

#include "core/checked.hpp"

namespace varve {
namespace {

constexpr std::size_t num_halves = 3; ///< the whole tile, and its halves

} // namespace

std::size_t num_tiles(ProductTiles const& tiles) {
  auto const lines = capped_add(tiles.num_row_tiles(), tiles.num_column_tiles());
  return static_cast<std::size_t>(capped_multiply(capped_multiply(lines, tiles.num_steps()), num_halves));
}

std::size_t number_of_tile(ProductTiles const& tiles, TileKey const& key) {
  auto const line = key.operand == TileKey::Operand::a ? key.tile : tiles.num_row_tiles() + key.tile;
  return static_cast<std::size_t>((line * tiles.num_steps() + key.step) * num_halves) +
         static_cast<std::size_t>(key.half);
}

} // namespace varve
