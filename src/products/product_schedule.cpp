#include "products/product_schedule.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace varve {
namespace {

/// All tiles that a band shares stay for all steps. Each is used again after as many tasks as a band is wide, plus at
/// most the number of concurrent tasks.
TileCache empty_cache(ScheduleSettings const& settings) {
  auto const& order = settings.order;
  if (!order.stays) return TileCache(settings.num_slots);
  auto const steps = static_cast<std::size_t>(settings.tiles.num_steps());
  TileShares shares;
  shares.kept = order.is_of_columns ? TileKey::Operand::b : TileKey::Operand::a;
  shares.num_kept = std::min(order.band * steps, settings.num_slots - 1);
  shares.patience = std::uint64_t{2} * (order.band + settings.num_lanes) * steps;
  return TileCache(settings.num_slots, shares);
}

} // namespace

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

ProductSchedule::ProductSchedule(ScheduleSettings const& settings)
    : settings_(settings), cache_(empty_cache(settings)), lanes_(settings.num_lanes) {}

void ProductSchedule::begin(bool keeps_tiles) {
  if (!keeps_tiles) cache_ = empty_cache(settings_);
  lanes_.assign(lanes_.size(), Stream());
  turn_ = 0;
  has_tasks_ = true;
}

std::optional<PlannedStep> ProductSchedule::next(Next const& next_task) {
  for (std::size_t tried = 0; tried < lanes_.size(); ++tried) {
    auto const number = turn_;
    turn_ = (turn_ + 1) % lanes_.size();
    auto& lane = lanes_[number];
    if (!lane.task && has_tasks_) {
      lane = {next_task(), 0};
      has_tasks_ = lane.task.has_value();
    }
    if (lane.task) return plan(number);
  }
  return std::nullopt;
}

PlannedStep ProductSchedule::plan(std::size_t lane_number) {
  auto& lane = lanes_[lane_number];
  PlannedStep step;
  step.lane = lane_number;
  step.task = *lane.task;
  step.a = plan_tile(key_of(TileKey::Operand::a, step.task, lane.step));
  cache_.hold(step.a.slot);
  step.b = plan_tile(key_of(TileKey::Operand::b, step.task, lane.step));
  cache_.release(step.a.slot);
  auto const& tiles = settings_.tiles;
  step.num_rows = static_cast<int>(tiles.num_rows(tiles.row_tile(step.task)));
  step.num_columns = static_cast<int>(tiles.num_columns(tiles.column_tile(step.task)));
  step.depth = static_cast<int>(depth_of(lane.step));
  step.is_first = lane.step == 0;
  step.is_last = ++lane.step == settings_.tiles.num_steps();
  if (step.is_last) lane.task.reset();
  return step;
}

PlannedTile ProductSchedule::plan_tile(TileKey const& key) {
  auto const size = static_cast<double>(extent_of(key).block.size());
  all_numbers_ += size;
  auto const found = cache_.find(key);
  if (!found) loaded_numbers_ += size;
  return {key, found ? *found : cache_.replace(key), !found};
}

std::uint64_t ProductSchedule::num_kept(std::uint64_t task) const {
  std::uint64_t count = 0;
  for (std::uint64_t step = 0; step < settings_.tiles.num_steps(); ++step)
    for (auto const operand : {TileKey::Operand::a, TileKey::Operand::b})
      count += cache_.has(key_of(operand, task, step)) ? 1 : 0;
  return count;
}

TileExtent ProductSchedule::extent_of(TileKey const& key) const {
  auto const& tiles = settings_.tiles;
  bool const is_a = key.operand == TileKey::Operand::a;
  auto const first_line = key.tile * tiles.tile;
  auto const num_lines = is_a ? tiles.num_rows(key.tile) : tiles.num_columns(key.tile);
  auto const first = key.step * tiles.step;
  auto const depth = depth_of(key.step);
  bool const lines_are_rows = is_a != (is_a ? settings_.transpose_a : settings_.transpose_b);
  auto const lines = static_cast<std::int64_t>(num_lines);
  auto const length = static_cast<std::int64_t>(depth);
  if (lines_are_rows) return {{first_line, num_lines, first, depth}, {lines, length, length, 1}};
  return {{first, depth, first_line, num_lines}, {lines, length, 1, lines}};
}

TileKey ProductSchedule::key_of(TileKey::Operand operand, std::uint64_t task, std::uint64_t step) const {
  auto const& tiles = settings_.tiles;
  return {operand, operand == TileKey::Operand::a ? tiles.row_tile(task) : tiles.column_tile(task), step};
}

std::uint64_t ProductSchedule::depth_of(std::uint64_t step) const {
  return std::min(settings_.tiles.step, settings_.tiles.shape.depth - step * settings_.tiles.step);
}

} // namespace varve
