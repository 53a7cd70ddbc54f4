#include "core/views.hpp"

#include "formats/device_layer.hpp"
#include "kernels/execution_spaces.hpp"
#include "kernels/join_neurons.hpp"
#include "kernels/tile.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace varve {
namespace {

TEST(Views, PartsBeginAndEndWhereAsked) {
  std::vector<int> numbers{0, 1, 2, 3, 4, 5, 6, 7};
  ArrayView<int> const array(numbers.data(), numbers.size());
  EXPECT_EQ(part_of(array, 3, 2).size(), 2U);
  EXPECT_EQ(part_of(array, 3, 2)(1), 4);
  EXPECT_EQ(part_of(array, 6).size(), 2U);
  EXPECT_EQ(part_of(array, 8).size(), 0U);
  EXPECT_EQ((piece_of<Pack<int, 2>>(array, 2).lane[1]), 5);
  EXPECT_EQ((piece_at<Pack<int, 2>>(array, 6).lane[0]), 6);
  EXPECT_EQ((piece_at_byte<int>(array, 12)), 3);
  EXPECT_EQ(elements_of(array, 5, 3), numbers.data() + 5);
}

#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
/// A kernel that is launched over more positions than its arrays have.
void count_live_past_the_end() {
  std::vector<int> stamps(10, 1);
  CountLive const kernel{ArrayView<int const>(stamps.data(), stamps.size()), 1};
  int count = 0;
  for (int position = 0; position < 11; ++position) kernel(position, count);
}

TEST(ViewsDeathTest, AKernelIsStoppedAtTheEndOfAnArray) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(count_live_past_the_end(), "bounds");
}

TEST(ViewsDeathTest, PartsAndPiecesStayWithinAnArray) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<float> numbers(32);
  ArrayView<float> const array(numbers.data(), numbers.size());
  using Tile = TileShape<float, 4, 1, 2>;
  EXPECT_EQ(&Tile::pack_at(array, 3, 1, 0).lane[3], &numbers[31]);
  EXPECT_DEATH(Tile::pack_at(array, 4, 0, 0).lane[0] = 1.0F, "leaves the bounds");
  EXPECT_DEATH(part_of(array, 30, 3), "leaves the bounds");
  EXPECT_DEATH(elements_of(array, 33, 0), "leaves the bounds");
}
#endif

} // namespace
} // namespace varve
