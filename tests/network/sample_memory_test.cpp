#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>

namespace varve {
namespace {

/// Counts the bytes that a SampleMemory holds.
class SampleMemories : public ::testing::Test {
protected:
  std::shared_ptr<SampleMemory> memory() {
    SampleMemory::Source source;
    source.allocate = [this](std::size_t bytes) -> void* {
      if (bytes > most_) throw std::bad_alloc();
      void* const address = std::malloc(bytes);
      held_[address] = bytes;
      ++num_allocated_;
      return address;
    };
    source.free = [this](void* address) {
      EXPECT_EQ(held_.erase(address), 1U);
      std::free(address);
    };
    return std::make_shared<SampleMemory>(source, false);
  }

  std::map<void*, std::size_t> held_;
  std::size_t num_allocated_ = 0;
  std::size_t most_ = 1000000;
};

TEST_F(SampleMemories, UseABlockAgainWhenItsLastOwnerLetsGo) {
  auto const all = memory();
  auto first = all->take(1000);
  auto const* const address = first.get();
  auto second = first;
  first.reset();
  auto const other = all->take(1000);
  EXPECT_NE(other.get(), address);
  second.reset();
  EXPECT_EQ(all->take(900).get(), address);
  EXPECT_EQ(all->take(1010).get(), address) << "a block has a sixteenth more than was asked for";
  EXPECT_EQ(num_allocated_, 2U);
}

TEST_F(SampleMemories, TakeTheSmallestBlockThatIsLargeEnough) {
  auto const all = memory();
  auto large = all->take(1000);
  auto small = all->take(100);
  auto const* const address = small.get();
  large.reset();
  small.reset();
  EXPECT_EQ(all->take(50).get(), address);
  EXPECT_EQ(num_allocated_, 2U);
}

TEST_F(SampleMemories, FreeABlockInWhosePlaceTheyGetALargerOne) {
  auto const all = memory();
  all->take(100);
  all->take(2000);
  ASSERT_EQ(held_.size(), 1U);
  EXPECT_GE(held_.begin()->second, 2000U);
}

TEST_F(SampleMemories, LiveAsLongAsTheirBlocks) {
  auto all = memory();
  auto const block = all->take(0);
  ASSERT_TRUE(block);
  std::weak_ptr<SampleMemory> const watched = all;
  all.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(held_.size(), 1U);
}

TEST_F(SampleMemories, FreeAllAtTheEnd) {
  {
    auto const all = memory();
    auto const one = all->take(10);
    all->take(20);
  }
  EXPECT_TRUE(held_.empty());
}

TEST_F(SampleMemories, GiveNothingWhereThereIsNoMemory) {
  auto const all = memory();
  most_ = 100;
  EXPECT_FALSE(all->take(100)) << "with a sixteenth more";
  EXPECT_TRUE(all->take(90));
}

} // namespace
} // namespace varve
