#include "core/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// Each test has a type of its own, and so vectors of its own.
template <int Test>
struct Number {
  int value = 0;
};

template <int Test>
BufferPool<Number<Test>>& vectors() {
  return BufferPool<Number<Test>>::of_process();
}

constexpr std::size_t large = 100000;

TEST(BufferPool, GivesTheMemoryOfAVectorThatWasGivenBack) {
  auto vector = vectors<1>().take(large);
  ASSERT_EQ(vector.size(), large);
  auto const* memory = vector.data();
  vectors<1>().recycle(std::move(vector));
  auto const again = vectors<1>().take(large - 1);
  EXPECT_EQ(again.data(), memory);
  EXPECT_EQ(again.size(), large - 1);
  EXPECT_NE(vectors<1>().take(large).data(), memory) << "it is in use";
}

TEST(BufferPool, GivesTheSmallestThatSuffices) {
  std::vector<Number<2> const*> memory;
  std::vector<std::vector<Number<2>>> taken;
  for (std::size_t const size : {3 * large, large, 2 * large})
    memory.push_back(taken.emplace_back(vectors<2>().take(size)).data());
  for (auto& vector : taken) vectors<2>().recycle(std::move(vector));
  EXPECT_EQ(vectors<2>().take(large + 1).data(), memory[2]);
}

TEST(BufferPool, DoesNotGiveAVectorOfFarMore) {
  auto vector = vectors<3>().take(5 * large);
  auto const* memory = vector.data();
  vectors<3>().recycle(std::move(vector));
  EXPECT_NE(vectors<3>().take(large).data(), memory);
}

TEST(BufferPool, KeepsLittle) {
  constexpr std::size_t half = (std::size_t{32} << 20U) / sizeof(Number<4>);
  auto first = vectors<4>().take(half);
  auto second = vectors<4>().take(half + 1);
  first.front().value = 1;
  second.front().value = 2;
  vectors<4>().recycle(std::move(first));
  vectors<4>().recycle(std::move(second)); // more than 64 MiB together: freed
  EXPECT_EQ(vectors<4>().take(half + 1).front().value, 0) << "new memory";
  EXPECT_EQ(vectors<4>().take(half).front().value, 1);
}

} // namespace
} // namespace varve
