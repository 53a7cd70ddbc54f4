#include "products/peer_tiles.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

namespace varve {
namespace {

/// A word, from its lowest bit on: 12 bits of readers, 2 of state, 22 of slot, 28 of generation. Zero: absent.
enum class State : std::uint64_t { absent, coming, ready };

constexpr unsigned state_shift = 12;
constexpr unsigned slot_shift = state_shift + 2;
constexpr unsigned generation_shift = slot_shift + 22;
constexpr std::uint64_t reader_limit = (std::uint64_t{1} << state_shift) - 1;

std::uint64_t num_readers(std::uint64_t word) { return word & reader_limit; }
State state_of(std::uint64_t word) { return static_cast<State>((word >> state_shift) & 3U); }
std::size_t slot_of(std::uint64_t word) {
  return static_cast<std::size_t>((word >> slot_shift) & (TileDirectory::slot_limit - 1));
}

std::uint64_t with_state(std::uint64_t word, State state) {
  return (word & ~(std::uint64_t{3} << state_shift)) | (static_cast<std::uint64_t>(state) << state_shift);
}

/// The word of the next generation of a tile, which will be in a slot; without readers.
std::uint64_t next_generation(std::uint64_t word, std::size_t slot) {
  auto const generation = (word >> generation_shift) + 1;
  return with_state((generation << generation_shift) | (std::uint64_t{slot} << slot_shift), State::coming);
}

using Word = std::atomic_ref<std::uint64_t>;

/// Replaces a word atomically by change(word) unless that is nullopt; returns the new word.
template <class Change>
std::optional<std::uint64_t> replace(Word const& word, Change const& change) {
  auto found = word.load();
  for (;;) {
    std::optional<std::uint64_t> const wanted = change(found);
    if (!wanted || word.compare_exchange_weak(found, *wanted)) return wanted;
  }
}

} // namespace

TileDirectory::TileDirectory(std::span<std::uint64_t> own, std::vector<std::uint64_t*> peers)
    : own_(own), peers_(std::move(peers)) {}

TileDirectory::Place TileDirectory::look(std::size_t tile) const {
  auto place = Place::nowhere;
  for (auto* const words : peers_) {
    auto const state = state_of(Word(words[tile]).load());
    if (state == State::ready) return Place::ready;
    if (state == State::coming) place = Place::coming;
  }
  return place;
}

void TileDirectory::claim(std::size_t tile) {
  replace(Word(own_[tile]), [](std::uint64_t word) -> std::optional<std::uint64_t> {
    if (state_of(word) != State::absent || num_readers(word) > 0) return std::nullopt;
    return next_generation(word, 0); // begin() sets the slot
  });
}

std::uint64_t TileDirectory::begin(std::size_t tile, std::size_t slot) {
  return *replace(Word(own_[tile]), [&](std::uint64_t word) -> std::optional<std::uint64_t> {
    VARVE_REQUIRE(state_of(word) != State::ready && num_readers(word) == 0, "a tile comes where others may copy it");
    return next_generation(word, slot);
  });
}

bool TileDirectory::publish(std::size_t tile, std::uint64_t ticket) {
  return Word(own_[tile]).compare_exchange_strong(ticket, with_state(ticket, State::ready));
}

void TileDirectory::close(std::size_t tile, double patience) {
  Word const word(own_[tile]);
  replace(word, [](std::uint64_t found) { return std::optional(with_state(found, State::absent)); });
  Stopwatch const time;
  while (num_readers(word.load()) > 0) {
    if (time.seconds() > patience)
      throw ResourceError("another rank does not finish the copy of a tile from this rank; it may have ended");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void TileDirectory::close_all() {
  for (std::size_t tile = 0; tile < own_.size(); ++tile)
    if (Word(own_[tile]).load() != 0) close(tile);
}

std::optional<TileDirectory::Pin> TileDirectory::pin(std::size_t tile) {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    auto const pinned = replace(Word(peers_[peer][tile]), [](std::uint64_t word) -> std::optional<std::uint64_t> {
      if (state_of(word) != State::ready || num_readers(word) == reader_limit) return std::nullopt;
      return word + 1;
    });
    if (pinned) return Pin{peer, slot_of(*pinned)};
  }
  return std::nullopt;
}

void TileDirectory::release(std::size_t tile, Pin const& pin) { Word(peers_[pin.peer][tile]).fetch_sub(1); }

namespace {

/// The number of a tile among those of A and B; each has a word in the directory of each rank.
std::size_t number_of_tile(ProductTiles const& tiles, TileKey const& key) {
  auto const line = key.operand == TileKey::Operand::a ? key.tile : tiles.num_row_tiles() + key.tile;
  return static_cast<std::size_t>(line * tiles.num_steps() + key.step);
}

/// Seconds to wait for a tile that another rank is reading.
constexpr double min_patience = 0.02;
constexpr double first_patience = 0.2; ///< before this rank has read a tile

} // namespace

PeerTiles::PeerTiles(DeviceMemory const& device, ProductTiles const& tiles, ProductMemory const& memory,
                     std::string const& layout, std::size_t rank, MachineMemory::Gather const& gather)
    : device_(device),
      tiles_(tiles),
      slot_bytes_(memory.slot_bytes),
      memory_(
          device, rank, gather, {.bytes = memory.num_slots * memory.slot_bytes, .num_words = num_tiles(tiles)}, layout,
          num_tiles(tiles) > max_shared_tiles || memory.num_slots > TileDirectory::slot_limit ? "its tiles are too many"
                                                                                              : ""),
      in_slot_(memory.num_slots),
      copies_(device.new_stream()) {
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
  auto const patience = seconds_to_read > 0.0 ? std::max(2.0 * seconds_to_read, min_patience) : first_patience;
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
  slot.loaded->set(*copies_);
  publish(number, *copies_);
  ++traffic_.num_copied;
  traffic_.bytes += static_cast<double>(bytes);
  return true;
}

void PeerTiles::publish(std::size_t slot, Stream const& lane) {
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
void PeerTiles::after(Stream const& lane, JobThread& thread, JobThread::Job const& work) const {
  if (device_.is_host()) {
    lane.fence("varve::product_tile");
    return work();
  }
  std::shared_ptr<StreamMark> const mark = device_.new_mark();
  mark->set(lane);
  thread.add([mark, work] {
    mark->await();
    work();
  });
}

} // namespace varve
