#include "products/peer_tiles.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace varve {
namespace {

using Place = TileDirectory::Place;

constexpr std::size_t num_tiles = 12;

/// The words of several ranks, and the directory of each; peers of rank r are r + 1, r + 2, ...
struct Ranks {
  explicit Ranks(std::size_t count) : words(count, std::vector<std::uint64_t>(num_tiles)) {
    for (std::size_t rank = 0; rank < count; ++rank) {
      std::vector<std::uint64_t*> peers;
      for (std::size_t step = 1; step < count; ++step) peers.push_back(words[(rank + step) % count].data());
      directories.emplace_back(words[rank], peers);
    }
  }
  TileDirectory& operator[](std::size_t rank) { return directories[rank]; }

  std::vector<std::vector<std::uint64_t>> words;
  std::vector<TileDirectory> directories;
};

TEST(TileDirectories, ShowATileWhenItIsReady) {
  Ranks ranks(2);
  EXPECT_EQ(ranks[1].look(3), Place::nowhere);
  auto const ticket = ranks[0].begin(3, 5);
  EXPECT_EQ(ranks[1].look(3), Place::coming);
  EXPECT_FALSE(ranks[1].pin(3));
  EXPECT_TRUE(ranks[0].publish(3, ticket));
  EXPECT_EQ(ranks[1].look(3), Place::ready);
  EXPECT_EQ(ranks[1].look(4), Place::nowhere);
  EXPECT_EQ(ranks[0].look(3), Place::nowhere); // on other ranks
  auto const pin = ranks[1].pin(3);
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->slot, 5U);
  ranks[1].release(3, *pin);
  ranks[0].close(3);
  EXPECT_EQ(ranks[1].look(3), Place::nowhere);
  EXPECT_FALSE(ranks[1].pin(3));
}

TEST(TileDirectories, TakeTheNearestRank) {
  Ranks ranks(3);
  ranks[1].publish(0, ranks[1].begin(0, 8));
  ranks[2].publish(0, ranks[2].begin(0, TileDirectory::slot_limit - 1));
  EXPECT_EQ(ranks[0].pin(0)->slot, 8U);
  auto const pin = ranks[1].pin(0);
  EXPECT_EQ(pin->slot, TileDirectory::slot_limit - 1);
  EXPECT_EQ(pin->peer, 0U);
}

TEST(TileDirectories, ForgetTicketsOfTilesThatWereClosed) {
  Ranks ranks(2);
  auto const first = ranks[0].begin(1, 2);
  ranks[0].close(1);
  EXPECT_FALSE(ranks[0].publish(1, first));
  auto const second = ranks[0].begin(1, 2); // the same tile, to the same slot
  EXPECT_FALSE(ranks[0].publish(1, first));
  EXPECT_EQ(ranks[1].look(1), Place::coming);
  EXPECT_TRUE(ranks[0].publish(1, second));
  EXPECT_EQ(ranks[1].look(1), Place::ready);
}

TEST(TileDirectories, ClaimWhatNoOneHas) {
  Ranks ranks(2);
  ranks[0].claim(6);
  EXPECT_EQ(ranks[1].look(6), Place::coming);
  ranks[0].publish(6, ranks[0].begin(6, 1));
  ranks[0].claim(6); // it is there
  EXPECT_EQ(ranks[1].look(6), Place::ready);
  ranks[0].claim(7);
  ranks[0].close_all();
  EXPECT_EQ(ranks[1].look(6), Place::nowhere);
  EXPECT_EQ(ranks[1].look(7), Place::nowhere);
}

TEST(TileDirectories, WaitForReadersBeforeASlotGoes) {
  Ranks ranks(2);
  ranks[0].publish(2, ranks[0].begin(2, 0));
  auto const pin = ranks[1].pin(2);
  std::atomic<bool> is_released = false;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    is_released = true;
    ranks[1].release(2, *pin);
  });
  ranks[0].close(2);
  EXPECT_TRUE(is_released);
  reader.join();
}

TEST(TileDirectories, DoNotWaitForEverForAReaderThatEnded) {
  Ranks ranks(2);
  ranks[0].publish(2, ranks[0].begin(2, 0));
  ASSERT_TRUE(ranks[1].pin(2));
  EXPECT_THROW(ranks[0].close(2, 0.01), ResourceError);
}

TEST(TileDirectories, RefuseASecondSlotForATile) {
  Ranks ranks(2);
  ranks[0].publish(2, ranks[0].begin(2, 0));
  EXPECT_THROW(ranks[0].begin(2, 1), std::logic_error);
}

/// A rank whose few slots take one tile after the other while others copy them. A slot holds words that all are the
/// number of its tile; the numbers are written one by one, so that a reader of a slot that changes sees different ones.
class Stress {
public:
  static constexpr std::size_t num_slots = 3;
  static constexpr std::size_t slot_size = 64;
  static constexpr int num_rounds = 20000;
  static constexpr std::uint64_t num_wanted = 1000; ///< copies
  static constexpr double longest = 60.0;           ///< seconds

  /// Of the copies of all readers, those that saw something else than the tile.
  std::uint64_t run(std::size_t num_readers) {
    std::vector<std::thread> threads;
    for (std::size_t reader = 0; reader < num_readers; ++reader)
      threads.emplace_back([this, reader] { read(reader + 1); });
    threads.emplace_back([this] { publish_late(); });
    bring_all();
    is_over_ = true;
    for (auto& thread : threads) thread.join();
    return num_wrong_;
  }

  std::uint64_t num_copies() const { return num_copies_; }

private:
  struct Arrived {
    std::size_t tile;
    std::uint64_t ticket;
  };

  void bring_all() {
    std::mt19937 random(1);
    std::array<std::size_t, num_slots> tile_in{};
    tile_in.fill(num_tiles);
    Stopwatch const time;
    for (int round = 0; round < num_rounds || num_copies_ < num_wanted; ++round) {
      if (time.seconds() > longest) break;
      auto const slot = random() % num_slots;
      std::size_t tile = random() % num_tiles;
      while (tile == tile_in[0] || tile == tile_in[1] || tile == tile_in[2]) tile = (tile + 1) % num_tiles;
      if (tile_in[slot] < num_tiles) ranks_[0].close(tile_in[slot]);
      if (random() % 2 == 0) ranks_[0].claim(tile);
      auto const ticket = ranks_[0].begin(tile, slot);
      tile_in[slot] = tile;
      for (auto& number : slots_[slot]) number.store(tile, std::memory_order_relaxed);
      // as with a device, another thread tells that the tile is there, perhaps after it has gone
      std::lock_guard const lock(guard_);
      arrived_.push_back({tile, ticket});
    }
  }

  /// Tells of the tiles in any order.
  void publish_late() {
    std::mt19937 random(99);
    while (!is_over_) {
      std::lock_guard const lock(guard_);
      if (arrived_.empty()) continue;
      std::swap(arrived_[random() % arrived_.size()], arrived_.back());
      ranks_[0].publish(arrived_.back().tile, arrived_.back().ticket);
      arrived_.pop_back();
    }
  }

  void read(std::size_t rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    while (!is_over_) {
      std::size_t const tile = random() % num_tiles;
      auto const pin = ranks_[rank].pin(tile);
      if (!pin) continue;
      bool is_right = true;
      for (auto const& number : slots_[pin->slot]) is_right &= number.load(std::memory_order_relaxed) == tile;
      ranks_[rank].release(tile, *pin);
      ++num_copies_;
      if (!is_right) ++num_wrong_;
    }
  }

  Ranks ranks_{4};
  std::array<std::array<std::atomic<std::size_t>, slot_size>, num_slots> slots_{};
  std::mutex guard_;
  std::vector<Arrived> arrived_; ///< of which was not told yet
  std::atomic<std::uint64_t> num_copies_ = 0, num_wrong_ = 0;
  std::atomic<bool> is_over_ = false;
};

TEST(TileDirectories, NeverServeAStaleTile) {
  Stress stress;
  EXPECT_EQ(stress.run(3), 0U);
  EXPECT_GE(stress.num_copies(), Stress::num_wanted);
}

} // namespace
} // namespace varve
