#include "core/machine_memory.hpp"

#include "core/host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t num_ranks = 3;
constexpr MachineMemory::Sizes sizes{1000, 2, 4};

/// What ranks say instead of their own text.
using Edit = std::function<std::string(std::size_t rank, std::string const& text)>;

std::string as_it_is(std::size_t /*rank*/, std::string const& text) { return text; }

/// Makes the memory of all ranks, threads of one process, and calls `work` on each.
void on_ranks(Edit const& edit, std::function<void(std::size_t rank, MachineMemory& memory)> const& work) {
  std::vector<std::string> texts(num_ranks);
  std::barrier<> all(num_ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto const gather = [&](std::string const& text) {
        texts[rank] = edit(rank, text);
        all.arrive_and_wait();
        return texts;
      };
      MachineMemory memory(device_memory(Backend::serial), rank, gather, sizes, "rows");
      all.arrive_and_wait();
      work(rank, memory);
      all.arrive_and_wait();
      memory.leave();
      all.arrive_and_wait();
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(MachineMemories, AreReadByAllRanks) {
  std::barrier<> written(num_ranks);
  on_ranks(as_it_is, [&](std::size_t rank, MachineMemory& memory) {
    for (std::size_t i = 0; i < sizes.bytes; ++i) memory.own().bytes->data()[i] = static_cast<std::byte>(i + 7 * rank);
    for (auto const& other : memory.ranks())
      std::atomic_ref<std::uint64_t>(other.first_word()[sizes.num_words - 1]).fetch_add(1 + rank);
    written.arrive_and_wait();
    for (std::size_t other = 0; other < num_ranks; ++other) {
      auto const& theirs = memory.ranks()[other];
      EXPECT_EQ(theirs.obstacle, "");
      EXPECT_TRUE(theirs.is_near);
      EXPECT_EQ(theirs.marks.size(), sizes.num_marks);
      EXPECT_EQ(theirs.first_word()[0], 0U);
      EXPECT_EQ(theirs.first_word()[sizes.num_words - 1], 1U + 2U + 3U);
      for (std::size_t i = 0; i < sizes.bytes; ++i)
        ASSERT_EQ(theirs.bytes->data()[i], static_cast<std::byte>(i + 7 * other));
    }
  });
}

TEST(MachineMemories, OfARankThatHasNoneAreNotOpened) {
  auto const edit = [](std::size_t rank, std::string const& text) {
    return rank == 1 ? host_name() + "\nrows\n\nno memory" : text;
  };
  on_ranks(edit, [](std::size_t rank, MachineMemory& memory) {
    for (std::size_t other = 0; other < num_ranks; ++other)
      EXPECT_EQ(memory.ranks()[other].obstacle, other == 1 && rank != 1 ? "no memory" : "");
  });
}

TEST(MachineMemories, OfOtherMachinesAndLayoutsAreNotOpened) {
  auto const edit = [](std::size_t rank, std::string const& text) {
    return rank == 0
               ? "elsewhere" + text.substr(text.find('\n'))
               : (rank == 1 ? host_name() + "\ncolumns" + text.substr(text.find('\n', text.find('\n') + 1)) : text);
  };
  on_ranks(edit, [](std::size_t rank, MachineMemory& memory) {
    if (rank != 2) return;
    EXPECT_EQ(memory.ranks()[0].obstacle, "it runs on another machine");
    EXPECT_FALSE(memory.ranks()[0].is_near);
    EXPECT_EQ(memory.ranks()[1].obstacle, "its memory has another layout (columns)");
    EXPECT_TRUE(memory.ranks()[1].is_near);
  });
}

TEST(MachineMemories, ThatCannotBeOpenedHaveAnObstacle) {
  auto const edit = [](std::size_t rank, std::string const& text) {
    return rank == 1 ? host_name() + "\nrows\n\n\nnonsense" : text;
  };
  on_ranks(edit, [](std::size_t rank, MachineMemory& memory) {
    if (rank != 1) {
      EXPECT_THAT(memory.ranks()[1].obstacle, ::testing::HasSubstr("'nonsense' is no handle"));
    }
  });
}

TEST(MachineMemories, AreNeitherMadeNorOpenedBehindAnObstacle) {
  auto const gather = [](std::string const& text) {
    return std::vector<std::string>{text, host_name() + "\nrows\n\n\nhandle"};
  };
  MachineMemory const memory(device_memory(Backend::serial), 0, gather, sizes, "rows", "too large");
  EXPECT_EQ(memory.own().obstacle, "too large");
  EXPECT_EQ(memory.own().bytes, nullptr);
  EXPECT_EQ(memory.ranks()[1].obstacle, "this rank shares none: too large");
}

} // namespace
} // namespace varve
