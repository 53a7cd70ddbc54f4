#include "distribute/shared_product.hpp"

#include "distribute/record_store.hpp"
#include "io/files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

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
    while (auto const task = queue.next([](std::uint64_t) { return std::uint64_t{0}; }, taken.size())) {
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
    for (bool const are_alike : {true, false}) {
      for (std::size_t const run_length : {1U, 3U, 20U}) {
        TileQueue queue(ranks_, tasks(count), are_alike, run_length);
        expect_each_once(take_all(queue, 0), tasks(count));
      }
    }
  }
}

TEST_F(Tiles, OfARunGoToOneRank) {
  constexpr std::size_t run_length = 4;
  for (bool const are_alike : {true, false}) {
    TileQueue queue(ranks_, tasks(48), are_alike, run_length);
    auto const taken = take_all(queue, 1);
    expect_each_once(taken, tasks(48));
    auto const num_last = run_length * static_cast<std::size_t>(ranks_.size()); // one by one
    for (auto const task : taken) {
      auto const place = 48 + 3 - 1 - task; // in the list
      if (place + num_last >= 48) continue;
      for (auto other = place / run_length * run_length; other < (place / run_length + 1) * run_length; ++other)
        EXPECT_EQ(std::ranges::count(taken, 48 + 3 - 1 - other), 1) << "place " << place;
    }
  }
}

TEST_F(Tiles, OfEqualPriorityComeInTheOrderOfTheList) {
  for (bool const are_alike : {true, false}) {
    TileQueue queue(ranks_, tasks(90), are_alike);
    auto const taken = take_all(queue, 1);
    EXPECT_TRUE(std::ranges::is_sorted(taken, std::greater())); // as the list
  }
}

TEST_F(Tiles, AreFewForSlowRanks) {
  TileQueue queue(ranks_, tasks(40), false);
  auto const taken = take_all(queue, ranks_.is_root() && ranks_.size() > 1 ? 300 : 3);
  expect_each_once(taken, tasks(40));
  auto const of_root = ranks_.sum(ranks_.is_root() ? std::uint64_t{taken.size()} : std::uint64_t{0});
  if (ranks_.size() > 1) {
    EXPECT_LE(of_root, 4U); // all 40 in equal parts would be 10 or more
  }
}

TEST_F(Tiles, WithTheirInputsAtHandComeFirst) {
  if (ranks_.size() > 1) return;                           // other ranks take tasks between the calls
  TileQueue queue(ranks_, {10, 11, 12, 13, 14, 15}, true); // the last one is taken by itself
  auto const value_of = [](std::uint64_t task) { return task == 12 ? std::uint64_t{5} : std::uint64_t{0}; };
  EXPECT_EQ(queue.next(value_of, 0), 12U);
  EXPECT_EQ(queue.next(value_of, 0), 10U);
  EXPECT_EQ(queue.num_taken(), 5U);
  EXPECT_EQ(queue.next([](std::uint64_t task) { return task; }, 0), 14U);
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
  EXPECT_TRUE(tasks_left(ranks_, order_of_tasks(tiles), store.ranges()).empty());
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
  auto const left = tasks_left(ranks_, {8, 7, 6, 5, 4, 3, 2, 1, 0}, ranges_of(mine));
  EXPECT_EQ(left, (std::vector<std::uint64_t>{8, 6, 5, 4, 3, 1, 0}));
  auto const refused = [&](std::vector<std::uint64_t> const& finished) {
    auto const own = ranks_.is_root() ? finished : std::vector<std::uint64_t>();
    EXPECT_THROW(tasks_left(ranks_, {0, 1}, ranges_of(own)), Error);
  };
  refused({1, 1});
}

TEST(TileRecords, OfOtherProductsAreRefused) {
  auto const refuse = [&](std::string const& record) {
    test::expect_holds(
        test::sentence_of<InputError>([&] { range_of_tile(small_tiles(), 1, record, "there: record 3"); }),
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
