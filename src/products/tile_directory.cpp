#include "products/tile_directory.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace varve {
namespace {

/// A word, from its lowest bit on: 12 bits of readers, 2 of state, 22 of slot, 28 of generation. Zero: absent.
enum class State : std::uint64_t { absent, coming, ready };

constexpr unsigned state_shift = 12;
constexpr unsigned slot_shift = state_shift + 2;
constexpr unsigned generation_shift = slot_shift + 22;
constexpr std::uint64_t most_readers = (std::uint64_t{1} << state_shift) - 1;

std::uint64_t num_readers(std::uint64_t word) { return word & most_readers; }
State state_of(std::uint64_t word) { return static_cast<State>((word >> state_shift) & 3U); }
std::size_t slot_of(std::uint64_t word) {
  return static_cast<std::size_t>((word >> slot_shift) & (TileDirectory::most_slots - 1));
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

std::size_t num_tiles(ProductTiles const& tiles) {
  auto const lines = capped_add(tiles.num_row_tiles(), tiles.num_column_tiles());
  return static_cast<std::size_t>(capped_multiply(lines, tiles.num_steps()));
}

std::size_t number_of_tile(ProductTiles const& tiles, TileKey const& key) {
  auto const line = key.operand == TileKey::Operand::a ? key.tile : tiles.num_row_tiles() + key.tile;
  return static_cast<std::size_t>(line * tiles.num_steps() + key.step);
}

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
      if (state_of(word) != State::ready || num_readers(word) == most_readers) return std::nullopt;
      return word + 1;
    });
    if (pinned) return Pin{peer, slot_of(*pinned)};
  }
  return std::nullopt;
}

void TileDirectory::release(std::size_t tile, Pin const& pin) { Word(peers_[pin.peer][tile]).fetch_sub(1); }

} // namespace varve
