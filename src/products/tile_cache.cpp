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
  auto& tile = tiles_[found->second];
  auto& uses = uses_of(key.operand);
  uses.splice(uses.end(), uses, tile.use);
  tile.last_search = num_searches();
  return found->second;
}

std::size_t TileCache::replace(TileKey const& key) {
  VARVE_REQUIRE(!slots_.contains(key), "a tile gets a second slot");
  std::size_t slot = num_used_;
  auto& uses = uses_of(key.operand);
  if (num_used_ < tiles_.size()) {
    ++num_used_;
    tiles_[slot].use = uses.insert(uses.end(), slot);
  } else {
    slot = slot_to_replace(key.operand);
    auto const& before = *tiles_[slot].key;
    uses.splice(uses.end(), uses_of(before.operand), tiles_[slot].use);
    slots_.erase(before);
  }
  tiles_[slot].key = key;
  tiles_[slot].last_search = num_searches();
  slots_.emplace(key, slot);
  return slot;
}

/// The slot of a list that was used longest ago and is not held.
std::optional<std::size_t> TileCache::oldest(Uses const& uses) const {
  auto const free = std::ranges::find_if(uses, [&](std::size_t used) { return tiles_[used].num_holders == 0; });
  return free == uses.end() ? std::nullopt : std::optional(*free);
}

std::size_t TileCache::slot_to_replace(TileKey::Operand operand) const {
  auto const passing = oldest(uses_[0]);
  auto const kept = oldest(uses_[1]);
  VARVE_REQUIRE(passing || kept, "all tiles of a cache are held");
  if (!kept) return *passing;
  if (!passing || num_searches() - tiles_[*kept].last_search > shares_->patience) return *kept;
  bool const is_kept = operand == shares_->kept;
  auto const share = is_kept ? shares_->num_kept : tiles_.size() - shares_->num_kept;
  bool const has_share = uses_[is_kept ? 1 : 0].size() >= share;
  return has_share == is_kept ? *kept : *passing;
}

} // namespace varve
