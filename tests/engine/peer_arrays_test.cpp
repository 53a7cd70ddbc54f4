#include "engine/peer_arrays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

/// What the ranks of a test, threads of one process, have in common.
struct Meeting {
  explicit Meeting(std::size_t num_ranks) : texts(num_ranks), all(static_cast<std::ptrdiff_t>(num_ranks)) {}

  std::vector<std::string> texts;
  std::barrier<> all;
};

class ThreadExchange final : public GradientExchange {
public:
  using Edit = std::function<std::string(std::size_t rank, std::string const& text, int call)>;

  ThreadExchange(Meeting& meeting, std::size_t rank, Edit edit)
      : meeting_(meeting), rank_(rank), edit_(std::move(edit)) {}

  std::size_t rank() const override { return rank_; }
  std::size_t num_ranks() const override { return meeting_.texts.size(); }
  std::vector<std::string> gather(std::string const& text) override {
    meeting_.texts[rank_] = edit_(rank_, text, num_calls_++);
    meeting_.all.arrive_and_wait();
    auto texts = meeting_.texts;
    meeting_.all.arrive_and_wait();
    return texts;
  }

  void start(int, std::vector<RankBytes> const&, std::vector<RankBytes> const&) override {}
  bool is_over(int) override { return true; }
  std::vector<double> gather(std::vector<double> const& numbers) override { return numbers; }
  std::vector<double> gather_on_root(std::vector<double> const& numbers) override { return numbers; }

private:
  Meeting& meeting_;
  std::size_t rank_;
  Edit edit_;
  int num_calls_ = 0;
};

using Peers = PeerArrays<float>;
constexpr Peers::Sizes sizes{11, 7, 4, 3, 2};
constexpr std::size_t num_ranks = 3;

std::string as_it_is(std::size_t /*rank*/, std::string const& text, int /*call*/) { return text; }

/// Opens arrays on all ranks, which say what `edit` makes of their texts, and calls `work` on each.
void on_ranks(ThreadExchange::Edit const& edit,
              std::function<void(std::size_t rank, Peers* arrays, std::string const& obstacle)> const& work) {
  Meeting meeting(num_ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadExchange exchange(meeting, rank, edit);
      std::string obstacle;
      auto const arrays = Peers::open(device_memory(Backend::serial), exchange, sizes, obstacle);
      work(rank, arrays.get(), obstacle);
      meeting.all.arrive_and_wait();
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(PeerArrays, AreReadByAllRanks) {
  Meeting written(num_ranks);
  on_ranks(as_it_is, [&](std::size_t rank, Peers* arrays, std::string const& obstacle) {
    EXPECT_EQ(obstacle, "");
    ASSERT_NE(arrays, nullptr);
    auto const number = [](std::size_t of_rank, std::size_t array, std::size_t i) {
      return static_cast<float>(1000 * of_rank + 100 * array + i);
    };
    for (std::size_t i = 0; i < sizes.num_outputs; ++i) arrays->bias(rank).data()[i] = number(rank, 0, i);
    for (std::size_t i = 0; i < sizes.num_edges; ++i) arrays->weights(rank).data()[i] = number(rank, 1, i);
    for (std::size_t subtree = 0; subtree < sizes.num_subtrees; ++subtree)
      for (std::size_t i = 0; i < sizes.num_sums; ++i)
        arrays->sums(rank, subtree).data()[i] = number(rank, 2 + subtree, i);
    written.all.arrive_and_wait();
    for (std::size_t other = 0; other < num_ranks; ++other) {
      for (std::size_t i = 0; i < sizes.num_outputs; ++i) EXPECT_EQ(arrays->bias(other).data()[i], number(other, 0, i));
      for (std::size_t i = 0; i < sizes.num_edges; ++i)
        EXPECT_EQ(arrays->weights(other).data()[i], number(other, 1, i));
      for (std::size_t subtree = 0; subtree < sizes.num_subtrees; ++subtree)
        for (std::size_t i = 0; i < sizes.num_sums; ++i)
          EXPECT_EQ(arrays->sums(other, subtree).data()[i], number(other, 2 + subtree, i));
    }
  });
}

TEST(PeerArrays, AreOpenedByNoneIfOneCannotShareThem) {
  auto const edit = [](std::size_t rank, std::string const& text, int call) {
    return rank == 1 && call == 0 ? "! no memory" : text;
  };
  on_ranks(edit, [](std::size_t /*rank*/, Peers const* arrays, std::string const& obstacle) {
    EXPECT_EQ(arrays, nullptr);
    EXPECT_EQ(obstacle, "rank 1: no memory");
  });
}

TEST(PeerArrays, AreOpenedByNoneIfOneCannotOpenThem) {
  auto const edit = [](std::size_t rank, std::string const& text, int call) {
    return rank == 1 && call == 1 ? "! no way" : text;
  };
  on_ranks(edit, [](std::size_t /*rank*/, Peers const* arrays, std::string const& obstacle) {
    EXPECT_EQ(arrays, nullptr);
    EXPECT_EQ(obstacle, "rank 1: no way");
  });
}

TEST(PeerArrays, AreNotThoseOfAnotherMachine) {
  auto const edit = [](std::size_t rank, std::string const& text, int call) {
    return rank == 1 && call == 0 ? "\nelsewhere:" + text.substr(1) : text;
  };
  on_ranks(edit, [](std::size_t /*rank*/, Peers const* arrays, std::string const& obstacle) {
    EXPECT_EQ(arrays, nullptr);
    EXPECT_EQ(obstacle, "rank 0: some ranks run on other machines, or on other "
                        "kinds of devices");
  });
}

TEST(PeerArrays, AreNotThoseOfRanksThatShareAGpu) {
  auto const edit = [](std::size_t rank, std::string const& text, int call) {
    return call == 0 ? (rank == 1 ? "one GPU" : "another GPU") + text : text;
  };
  on_ranks(edit, [](std::size_t /*rank*/, Peers const* arrays, std::string const& obstacle) {
    EXPECT_EQ(arrays, nullptr);
    EXPECT_EQ(obstacle, "ranks 0 and 2 share a GPU");
  });
}

} // namespace
} // namespace varve
