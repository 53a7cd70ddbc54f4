#include "distribute/communicator.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace varve {
namespace {

class Ranks : public testing::Test {
protected:
  Communicator const ranks_;
  std::uint64_t const rank_ = static_cast<std::uint64_t>(ranks_.rank());
  std::uint64_t const size_ = static_cast<std::uint64_t>(ranks_.size());

  /// Lets the listed ranks fail, each with a sentence of its own, and gives the sentence that this rank catches.
  std::string caught_when_failing(std::vector<int> const& failing) const {
    try {
      ranks_.together([&] {
        for (int const rank : failing) {
          if (ranks_.rank() == rank) throw InputError(fmt::format("file {} is broken", rank));
        }
      });
    } catch (Error const& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      return error.what();
    }
    return "nothing";
  }

  std::string sentence_of(int rank) const {
    auto const sentence = fmt::format("file {} is broken", rank);
    return size_ == 1 ? sentence : fmt::format("{} (rank {} of {})", sentence, rank, size_);
  }
};

TEST_F(Ranks, KnowThemselves) {
  EXPECT_LT(rank_, size_);
  EXPECT_EQ(ranks_.is_root(), rank_ == 0);
  EXPECT_EQ(ranks_.sum(std::uint64_t(1)), size_);
}

TEST_F(Ranks, SumAndMax) {
  EXPECT_EQ(ranks_.sum(rank_ + 1), size_ * (size_ + 1) / 2);
  EXPECT_EQ(ranks_.max(static_cast<double>(rank_) - 7.0), static_cast<double>(size_) - 8.0);
}

TEST_F(Ranks, SumOfHashesWrapsAround) {
  std::uint64_t const large = 0xffffffffffffffffU - rank_;
  std::uint64_t expected = 0;
  for (std::uint64_t rank = 0; rank < size_; ++rank) expected += 0xffffffffffffffffU - rank;
  EXPECT_EQ(ranks_.sum(large), expected);
}

TEST_F(Ranks, GatherEverywhere) {
  std::vector<std::uint64_t> const mine(rank_ * 2, (std::uint64_t(1) << 40) + rank_);
  std::vector<std::uint64_t> expected;
  for (std::uint64_t rank = 0; rank < size_; ++rank)
    expected.insert(expected.end(), rank * 2, (std::uint64_t(1) << 40) + rank);
  EXPECT_EQ(ranks_.gather_everywhere(mine), expected);
}

TEST_F(Ranks, Broadcast) {
  EXPECT_EQ(ranks_.broadcast(fmt::format("of rank {}", rank_)), "of rank 0");
  EXPECT_EQ(ranks_.broadcast(""), "");
}

TEST_F(Ranks, GatherOfTexts) {
  auto const texts = ranks_.gather(std::string(rank_ * 1000, 'x') + std::to_string(rank_));
  ASSERT_EQ(texts.size(), ranks_.is_root() ? size_ : 0);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    EXPECT_EQ(texts[rank], std::string(rank * 1000, 'x') + std::to_string(rank));
  }
}

TEST_F(Ranks, GatherOfLongLists) {
  std::vector<std::uint64_t> const mine(300000, rank_);
  auto const all = ranks_.gather_everywhere(mine);
  ASSERT_EQ(all.size(), 300000 * size_);
  for (std::size_t place = 0; place < all.size(); place += 9999) EXPECT_EQ(all[place], place / 300000);
}

/// Rank r holds the items r, r + size, r + 2 size, ... below 50; item k is k letters long.
class Items : public Ranks {
protected:
  std::vector<std::uint64_t> keys_;

  Items() {
    for (std::uint64_t key = rank_; key < 50; key += size_) keys_.push_back(key);
  }

  static std::string item(std::uint64_t key) { return std::string(key + 1, static_cast<char>('a' + key % 26)); }
};

TEST_F(Items, ReachTheRootInTheOrderOfTheirKeys) {
  std::uint64_t next = 0;
  ranks_.gather_in_order(
      keys_, [&](std::size_t place) { return item(keys_[place]); },
      [&](std::string const& bytes) { EXPECT_EQ(bytes, item(next++)); });
  EXPECT_EQ(next, ranks_.is_root() ? 50 : 0);
}

TEST_F(Items, GetThroughAlthoughOneCannotBeProduced) {
  auto const produce = [&](std::size_t place) {
    if (rank_ + 1 == size_ && place == 3) throw InputError("a record is broken");
    return item(keys_[place]);
  };
  EXPECT_THROW(ranks_.together([&] { ranks_.gather_in_order(keys_, produce, [](std::string const&) {}); }), Error);
  EXPECT_EQ(ranks_.sum(std::uint64_t(1)), size_); // all are still together
}

TEST_F(Items, GetThroughAlthoughTheRootCannotConsume) {
  int num_consumed = 0;
  auto const consume = [&](std::string const&) {
    if (++num_consumed == 7) throw ResourceError("the disk is full");
  };
  auto const work = [&] {
    ranks_.gather_in_order(
        keys_, [&](std::size_t place) { return item(keys_[place]); }, consume);
  };
  EXPECT_THROW(ranks_.together(work), Error);
  EXPECT_EQ(num_consumed, ranks_.is_root() ? 7 : 0);
}

TEST_F(Ranks, NobodyFails) {
  EXPECT_EQ(caught_when_failing({}), "nothing");
  int calls = 0;
  ranks_.together([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST_F(Ranks, OneFailsAndAllHearOfIt) {
  for (int failing = 0; failing < ranks_.size(); ++failing) {
    EXPECT_EQ(caught_when_failing({failing}), sentence_of(failing));
    EXPECT_EQ(ranks_.sum(std::uint64_t(1)), size_); // all are still together
  }
}

TEST_F(Ranks, AThreadThatCannotStartIsASentence) {
  auto const fail = [&] {
    if (ranks_.rank() + 1 == ranks_.size())
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  if (size_ == 1) { // it reaches main, which says the same
    EXPECT_THROW(ranks_.together(fail), std::system_error);
    return;
  }
  try {
    ranks_.together(fail);
    FAIL() << "no error";
  } catch (Error const& error) {
    EXPECT_EQ(error.kind(), ErrorKind::resource);
    EXPECT_EQ(std::string(error.what()).find("a thread cannot be started: "), 0U) << error.what();
  }
}

TEST_F(Ranks, TheLowestOfSeveralIsHeard) {
  std::vector<int> failing;
  for (int rank = ranks_.size() - 1; rank >= ranks_.size() / 2; --rank) failing.push_back(rank);
  EXPECT_EQ(caught_when_failing(failing), sentence_of(ranks_.size() / 2));
}

TEST_F(Ranks, TheKindOfTheErrorIsKept) {
  auto const kind_of = [&](auto const& error_of_last) {
    try {
      ranks_.together([&] {
        if (rank_ + 1 == size_) throw error_of_last;
      });
    } catch (Error const& error) {
      return error.kind();
    }
    throw std::logic_error("no error");
  };
  EXPECT_EQ(kind_of(UsageError("u")), ErrorKind::usage);
  EXPECT_EQ(kind_of(InputError("i")), ErrorKind::input);
  EXPECT_EQ(kind_of(ResourceError("r")), ErrorKind::resource);
}

TEST_F(Ranks, OtherExceptionsAreErrorsOfSeveralRanks) {
  auto const work = [&] {
    if (rank_ + 1 == size_) throw std::logic_error("a defect");
  };
  if (size_ == 1) {
    EXPECT_THROW(ranks_.together(work), std::logic_error);
  } else {
    EXPECT_THROW(ranks_.together(work), Error);
  }
}

TEST_F(Ranks, AnEmptySentenceIsAnErrorStill) {
  EXPECT_THROW(ranks_.together([] { throw UsageError(""); }), Error);
}

TEST(IsLaunched, ByVariablesOfLaunchersAndBatchSystemsOnly) {
  auto const with = [](std::vector<char const*> variables) {
    variables.push_back(nullptr);
    return is_launched(variables.data());
  };
  EXPECT_FALSE(with({}));
  EXPECT_FALSE(with({"PATH=/usr/bin", "HOME=/", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_MCA_pml=ob1", "OMP_NUM_THREADS=2",
                     "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe", "X=OMPI_COMM_WORLD_SIZE",
                     "PMIX_MCA_gds=hash", "MPI_HOME=/opt/mpi"}));
  for (char const* const variable :
       {"OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=0", "PMI_RANK=1", "PMI2_SIZE=2", "MPI_LOCALRANKID=0", "SLURM_JOB_ID=1",
        "FLUX_TASK_RANK=0", "PALS_RANKID=0", "JSM_NAMESPACE_RANK=0", "MV2_COMM_WORLD_RANK=0", "PBS_JOBID=1"}) {
    EXPECT_TRUE(with({"PATH=/usr/bin", variable})) << variable;
  }
}

} // namespace
} // namespace varve
