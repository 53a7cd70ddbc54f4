#include "products/tile_cache.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace varve {

std::optional<std::size_t> TileCache::find(TileKey const& key) {
  auto const found = slots_.find(key);
  if (found == slots_.end()) {
    ++num_misses_;
    return std::nullopt;
  }
  ++num_hits_;
  uses_.splice(uses_.end(), uses_, tiles_[found->second].use);
  return found->second;
}

std::size_t TileCache::replace(TileKey const& key) {
  VARVE_REQUIRE(!slots_.contains(key), "a tile gets a second slot");
  std::size_t slot = num_used_;
  if (num_used_ < tiles_.size()) {
    ++num_used_;
    tiles_[slot].use = uses_.insert(uses_.end(), slot);
  } else {
    auto const free = std::ranges::find_if(uses_, [&](std::size_t used) { return tiles_[used].num_holders == 0; });
    VARVE_REQUIRE(free != uses_.end(), "all tiles of a cache are held");
    slot = *free;
    uses_.splice(uses_.end(), uses_, free);
    slots_.erase(*tiles_[slot].key);
  }
  tiles_[slot].key = key;
  slots_.emplace(key, slot);
  return slot;
}

} // namespace varve
