#include "products/tile_reader.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace varve {
namespace {

using Operand = TileKey::Operand;

/// Reads blocks of one number: that of the row, for B 1000 more.
TileReader<float> make_reader(std::vector<float>& numbers, std::function<void(std::size_t)> await_free,
                              std::uint64_t broken_row = 999) {
  std::vector<TileBuffer<float>> buffers;
  for (std::size_t place = 0; place < numbers.size(); ++place)
    buffers.push_back({&numbers[place], [=] { await_free(place); }});
  auto const read = [=](float offset) {
    return [=](MatrixBlock const& block, float* value) {
      if (block.first_row == broken_row) throw std::domain_error("broken");
      *value = offset + static_cast<float>(block.first_row);
    };
  };
  return {read(0.0F), read(1000.0F), buffers, [] { return 0.0; }};
}

MatrixBlock block_of(std::uint64_t row) { return {row, 1, 0, 1}; }

TEST(TileReaders, ReadTilesInTheOrderInWhichTheyAreWanted) {
  for (std::size_t const num_buffers : {1U, 2U, 5U}) {
    std::vector<float> numbers(num_buffers);
    auto reader = make_reader(numbers, [](std::size_t) {});
    for (std::uint64_t row = 0; row < 20; ++row) reader.want(row % 3 == 0 ? Operand::b : Operand::a, block_of(row));
    for (std::uint64_t row = 0; row < 20; ++row) {
      auto const tile = reader.next();
      EXPECT_EQ(tile.buffer, row % num_buffers);
      EXPECT_EQ(numbers[tile.buffer], static_cast<float>(row) + (row % 3 == 0 ? 1000.0F : 0.0F));
      reader.give_back();
    }
  }
}

TEST(TileReaders, ReadAheadIntoFreeBuffersOnly) {
  std::vector<float> numbers(3, -1.0F);
  std::mutex guard;
  std::condition_variable changed;
  std::vector<int> num_free(3, 1); // how often each buffer may be read into
  std::atomic<int> num_begun = 0;
  auto reader = make_reader(numbers, [&](std::size_t place) {
    ++num_begun;
    std::unique_lock lock(guard);
    changed.wait(lock, [&] { return num_free[place] > 0; });
    --num_free[place];
  });
  for (std::uint64_t row = 0; row < 5; ++row) reader.want(Operand::a, block_of(row));
  auto const await_begun = [&](int count) {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (num_begun < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  };
  await_begun(3);
  EXPECT_EQ(reader.next().buffer, 0U);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(num_begun, 3) << "no buffer was given back";
  EXPECT_EQ(numbers[0], 0.0F);
  reader.give_back();
  await_begun(4);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(numbers[0], 0.0F) << "the device has not taken it yet";
  {
    std::lock_guard const lock(guard);
    num_free = {1, 1, 1};
  }
  changed.notify_all();
  for (std::uint64_t row = 1; row < 5; ++row) {
    EXPECT_EQ(numbers[reader.next().buffer], static_cast<float>(row));
    reader.give_back();
  }
}

TEST(TileReaders, LeaveOutWhatIsElsewhereUntilItIsWantedNow) {
  std::vector<float> numbers(2, -1.0F);
  auto reader = make_reader(numbers, [](std::size_t) {});
  for (std::uint64_t row = 0; row < 8; ++row)
    reader.want(Operand::a, block_of(row), [row] { return row % 2 == 1; }); // odd rows have the second buffer
  for (std::uint64_t row = 0; row < 8; ++row) {
    auto tile = reader.next();
    EXPECT_EQ(tile.is_elsewhere, row % 2 == 1);
    EXPECT_EQ(tile.buffer, row % 2);
    if (tile.is_elsewhere) {
      EXPECT_LT(numbers[1], static_cast<float>(row));
      if (row > 3) tile = reader.read_now(Operand::a, block_of(row));
      EXPECT_EQ(tile.is_elsewhere, row <= 3);
      EXPECT_EQ(numbers[1], row > 3 ? static_cast<float>(row) : -1.0F);
    } else {
      EXPECT_EQ(numbers[0], static_cast<float>(row));
    }
    reader.give_back();
  }
}

TEST(TileReaders, ThrowWhatReadingThrewAtItsTile) {
  std::vector<float> numbers(4);
  auto reader = make_reader(
      numbers, [](std::size_t) {}, 2);
  for (std::uint64_t row = 0; row < 4; ++row) reader.want(Operand::a, block_of(row));
  for (int good = 0; good < 2; ++good) {
    EXPECT_NO_THROW(reader.next());
    reader.give_back();
  }
  EXPECT_THROW(reader.next(), std::domain_error);
}

} // namespace
} // namespace varve
