#include "distribute/shared_product.hpp"

#include "distribute/record_store.hpp"
#include "io/files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t station_size = 4;

class Tiles : public ::testing::Test {
protected:
  Communicator const ranks_;

  /// The tasks 3, 4, ... in descending order.
  static std::vector<std::uint64_t> tasks(std::uint64_t count) {
    std::vector<std::uint64_t> tasks(count);
    std::iota(tasks.rbegin(), tasks.rend(), std::uint64_t{3});
    return tasks;
  }

  /// What this rank takes if a task takes it so many milliseconds.
  std::vector<std::uint64_t> take_all(TileQueue& queue, int milliseconds) const {
    std::vector<std::uint64_t> taken;
    while (auto const task = queue.next([](std::uint64_t) { return std::uint64_t{0}; })) {
      taken.push_back(*task);
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }
    return taken;
  }

  /// Expects that all ranks together have each task once.
  void expect_each_once(std::vector<std::uint64_t> const& taken, std::vector<std::uint64_t> expected) const {
    auto all = ranks_.gather_everywhere(taken);
    std::ranges::sort(all);
    std::ranges::sort(expected);
    EXPECT_EQ(all, expected);
  }
};

TEST_F(Tiles, GoToOneRankEach) {
  for (std::uint64_t const count : {0U, 1U, 2U, 5U, 17U, 300U}) {
    for (auto const stealing : {TileQueue::Stealing::on, TileQueue::Stealing::off}) {
      TileQueue queue(ranks_, tasks(count), station_size, stealing);
      expect_each_once(take_all(queue, 0), tasks(count));
      if (stealing == TileQueue::Stealing::off) {
        EXPECT_EQ(queue.num_stolen(), 0U);
      }
    }
  }
}

TEST_F(Tiles, OfEqualPriorityComeInTheOrderOfTheList) {
  if (ranks_.size() > 1) return;                   // other ranks take tasks between the calls
  TileQueue queue(ranks_, tasks(9), station_size); // in descending order
  EXPECT_EQ(take_all(queue, 0), tasks(9));
}

TEST_F(Tiles, AreReservedInRuns) {
  TileQueue queue(ranks_, tasks(40), station_size, TileQueue::Stealing::off, station_size);
  std::vector<std::uint64_t> taken = take_all(queue, 1);
  expect_each_once(taken, tasks(40));
  for (std::size_t place = 0; place < taken.size(); ++place) {
    if (place % station_size > 0) {
      EXPECT_EQ(taken[place], taken[place - 1] - 1);
    }
  }
  TileQueue ragged(ranks_, tasks(41), station_size, TileQueue::Stealing::on, 3);
  expect_each_once(take_all(ragged, 0), tasks(41));
}

TEST_F(Tiles, AreTakenFromSlowRanks) {
  TileQueue queue(ranks_, tasks(40), station_size);
  // rank 0 is the slowest: it would need seconds for what its station holds
  auto const taken = take_all(queue, ranks_.is_root() && ranks_.size() > 1 ? 300 : 3);
  expect_each_once(taken, tasks(40));
  auto const stolen = ranks_.sum(queue.num_stolen());
  auto const of_root = ranks_.sum(ranks_.is_root() ? std::uint64_t{taken.size()} : std::uint64_t{0});
  if (ranks_.size() == 1) {
    EXPECT_EQ(stolen, 0U);
  } else {
    EXPECT_GE(stolen, 1U);
    EXPECT_LE(of_root, 4U); // all 40 in equal parts would be 10 or more
  }
}

TEST_F(Tiles, WithTheirInputsAtHandComeFirst) {
  if (ranks_.size() > 1) return; // other ranks take tasks between the calls
  TileQueue queue(ranks_, {10, 11, 12, 13, 14}, 3);
  auto const value_of = [](std::uint64_t task) { return task == 12 ? std::uint64_t{5} : std::uint64_t{0}; };
  EXPECT_EQ(queue.next(value_of), 12U);
  EXPECT_EQ(queue.next(value_of), 10U);
  EXPECT_EQ(queue.num_taken(), 4U); // two were taken from the station, and replaced before the second
  EXPECT_EQ(queue.next([](std::uint64_t task) { return task; }), 14U);
}

TEST_F(Tiles, StationsExchangeWordsOfAllRanks) {
  SharedWords stations(ranks_, 2);
  auto const own = ranks_.rank();
  auto const next = (own + 1) % ranks_.size();
  EXPECT_EQ(stations.exchange(own, 1, 100 + static_cast<std::uint64_t>(own)), 0U);
  ranks_.together([] {});
  EXPECT_EQ(stations.read(next, 1), 100 + static_cast<std::uint64_t>(next));
  ranks_.together([] {});
  EXPECT_EQ(stations.exchange(next, 1, 7), 100 + static_cast<std::uint64_t>(next));
  ranks_.together([] {});
  EXPECT_EQ(stations.read(own, 1), 7U);
  EXPECT_EQ(stations.read(own, 0), 0U);
}

/// Ranges of records of these tasks.
std::vector<SampleRange> ranges_of(std::vector<std::uint64_t> const& tasks) {
  std::vector<SampleRange> ranges;
  for (auto const task : tasks) ranges.emplace_back(task, task + 1);
  return ranges;
}

/// Tiles of 2 x 2 numbers of one byte.
ProductTiles small_tiles() { return {{6, 5, 1}, 2, 64}; }

TEST_F(Tiles, AreGatheredInOrderFromTheStoresOfAllRanks) {
  auto const tiles = small_tiles(); // 3 x 3 tasks
  RecordStore store(std::filesystem::temp_directory_path());
  for (std::uint64_t task = tiles.num_tasks(); task-- > 0;) {
    if (task % static_cast<std::uint64_t>(ranks_.size()) != static_cast<std::uint64_t>(ranks_.rank())) continue;
    auto const record = record_of_tile(task, std::string(tiles.block(task).size(), static_cast<char>('a' + task)));
    store.add(range_of_tile(tiles, 1, record, "here"), record);
  }
  EXPECT_TRUE(tasks_left(ranks_, tiles, order_of_tasks(tiles), store.ranges()).empty());
  std::vector<std::uint64_t> gathered;
  for_each_in_order(ranks_, store, [&](std::string const& record) {
    auto const task = task_of_record(record);
    gathered.push_back(task);
    EXPECT_EQ(numbers_of_record(record), std::string(tiles.block(task).size(), static_cast<char>('a' + task)));
  });
  EXPECT_EQ(gathered.size(), ranks_.is_root() ? 9U : 0U);
  EXPECT_TRUE(std::ranges::is_sorted(gathered));
}

TEST_F(Tiles, ThatNobodyHasAreLeft) {
  std::vector<std::uint64_t> mine;
  if (ranks_.is_root()) mine = {2, 7};
  auto const left = tasks_left(ranks_, small_tiles(), {8, 7, 6, 5, 4, 3, 2, 1, 0}, ranges_of(mine));
  EXPECT_EQ(left, (std::vector<std::uint64_t>{8, 6, 5, 4, 3, 1, 0}));
  auto const refused = [&](std::vector<std::uint64_t> const& finished) {
    auto const own = ranks_.is_root() ? finished : std::vector<std::uint64_t>();
    EXPECT_THROW(tasks_left(ranks_, small_tiles(), {0, 1}, ranges_of(own)), Error);
  };
  refused({1, 1});
  refused({1, small_tiles().first_quarter(1) + 2}); // a tile and a quarter of it
}

TEST_F(Tiles, OfWhichQuartersAreThereAreLeftInQuarters) {
  auto const tiles = tiles_of({64, 96, 1}, 32); // 2 x 3 tiles
  std::vector<std::uint64_t> mine;
  if (ranks_.is_root()) mine = {1, tiles.first_quarter(4) + 1, tiles.first_quarter(4) + 2};
  if (ranks_.rank() == ranks_.size() - 1) mine.push_back(tiles.first_quarter(4) + 3);
  auto const left = tasks_left(ranks_, tiles, {0, 1, 2, 3, 4, 5}, ranges_of(mine));
  EXPECT_EQ(left, (std::vector<std::uint64_t>{0, 2, 3, tiles.first_quarter(4), 5}));
}

TEST(TileRecords, OfOtherProductsAreRefused) {
  auto const refuse = [&](std::string const& record) {
    testing::expect_holds(
        testing::sentence_of<InputError>([&] { range_of_tile(small_tiles(), 1, record, "there: record 3"); }),
        "there: record 3 has " + std::to_string(record.size()) + " bytes, expected a tile of this product");
  };
  auto const record_of = [](std::uint64_t task, std::size_t size) {
    return record_of_tile(task, std::string(size, 'x'));
  };
  EXPECT_EQ(range_of_tile(small_tiles(), 1, record_of(8, 2), ""), SampleRange(8, 9));
  refuse("");
  refuse("short");
  refuse(record_of(9, 4)); // there are 9 tasks
  refuse(record_of(~0ULL, 4));
  refuse(record_of(0, 3)); // a tile of 4 numbers
  refuse(record_of(8, 4)); // a tile of 2 numbers at the corner
  refuse(record_of(0, 0));
}

} // namespace
} // namespace varve
