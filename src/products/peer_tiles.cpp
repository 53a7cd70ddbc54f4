#include "products/peer_tiles.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

namespace varve {
namespace {

/// Seconds to wait for a tile that another rank is reading.
constexpr double least_patience = 0.02;
constexpr double first_patience = 0.2; ///< before this rank has read a tile

} // namespace

PeerTiles::PeerTiles(DeviceMemory const& device, ProductTiles const& tiles, ProductMemory const& memory,
                     std::string const& layout, std::size_t rank, MachineMemory::Gather const& gather)
    : device_(device),
      tiles_(tiles),
      slot_bytes_(memory.slot_bytes),
      memory_(device, rank, gather, {.bytes = memory.num_slots * memory.slot_bytes, .num_words = num_tiles(tiles)},
              layout,
              num_tiles(tiles) > most_shared_tiles || memory.num_slots > TileDirectory::most_slots
                  ? "its tiles are too many"
                  : ""),
      in_slot_(memory.num_slots),
      copies_(device.new_lane()) {
  if (!has_memory()) return;
  auto const& ranks = memory_.ranks();
  for (std::size_t other = 0; other < ranks.size(); ++other)
    if (other != rank && ranks[other].obstacle.empty()) nearest_.push_back(other);
  std::ranges::stable_sort(nearest_, {}, [&](std::size_t other) { return ranks[other].distance; });
  std::vector<std::uint64_t*> words;
  for (auto const other : nearest_) words.push_back(ranks[other].first_word());
  directory_.emplace(std::span(memory_.own().first_word(), num_tiles(tiles)), words);
}

std::vector<TilePeer> PeerTiles::peers() const {
  std::vector<TilePeer> peers;
  auto const& ranks = memory_.ranks();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (&ranks[rank] != &memory_.own() && ranks[rank].is_near)
      peers.push_back({static_cast<int>(rank), ranks[rank].obstacle});
  return peers;
}

void PeerTiles::leave() {
  directory_.reset();
  memory_.leave();
}

DeviceNumbers<std::byte> PeerTiles::slot(std::size_t number) const {
  return {nullptr, memory_.own().bytes->data() + number * slot_bytes_, slot_bytes_};
}

bool PeerTiles::is_elsewhere(TileKey const& key) {
  auto const tile = number_of_tile(tiles_, key);
  if (directory_->look(tile) != TileDirectory::Place::nowhere) return true;
  directory_->claim(tile);
  return false;
}

void PeerTiles::vacate(std::size_t slot) {
  Stopwatch const time;
  if (auto const before = std::exchange(in_slot_[slot], std::nullopt)) directory_->close(before->tile);
  traffic_.wait_seconds += time.seconds();
}

void PeerTiles::begin(TileKey const& key, std::size_t slot) {
  auto const tile = number_of_tile(tiles_, key);
  in_slot_[slot] = Held{tile, directory_->begin(tile, slot)};
}

bool PeerTiles::fetch(TileKey const& key, std::size_t number, TileSlot& slot, std::size_t packed_bytes,
                      std::uint64_t bytes, double seconds_to_read) {
  auto const tile = number_of_tile(tiles_, key);
  auto const patience = seconds_to_read > 0.0 ? std::max(2.0 * seconds_to_read, least_patience) : first_patience;
  Stopwatch const time;
  auto pin = directory_->pin(tile);
  while (!pin && time.seconds() < patience && directory_->look(tile) != TileDirectory::Place::nowhere) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    pin = directory_->pin(tile);
  }
  traffic_.wait_seconds += time.seconds();
  if (!pin) {
    ++traffic_.num_lost;
    return false;
  }
  begin(key, number);
  for (auto const& mark : slot.used) mark->make_wait(*copies_);
  auto const* const theirs = memory_.ranks()[nearest_[pin->peer]].bytes->data();
  copies_->copy_on_device(slot.memory.data(), theirs + pin->slot * slot_bytes_, packed_bytes);
  after(*copies_, releases_, [this, tile, pin = *pin] { directory_->release(tile, pin); });
  slot.brought->set(*copies_);
  publish(number, *copies_);
  ++traffic_.num_copied;
  traffic_.bytes += static_cast<double>(bytes);
  return true;
}

void PeerTiles::publish(std::size_t slot, Lane const& lane) {
  auto const [tile, ticket] = *in_slot_[slot];
  after(lane, publications_, [this, tile, ticket] { directory_->publish(tile, ticket); });
}

void PeerTiles::end(bool keeps_tiles) {
  publications_.await(publications_.last());
  releases_.await(releases_.last());
  if (keeps_tiles) return;
  directory_->close_all();
  std::ranges::fill(in_slot_, std::nullopt);
}

/// Calls work() once the device has completed what is enqueued on the lane; on GPUs on another thread.
void PeerTiles::after(Lane const& lane, JobThread& thread, JobThread::Job const& work) const {
  if (device_.is_host()) {
    lane.fence("varve::product_tile");
    return work();
  }
  std::shared_ptr<LaneMark> const mark = device_.new_mark();
  mark->set(lane);
  thread.add([mark, work] {
    mark->await();
    work();
  });
}

} // namespace varve
