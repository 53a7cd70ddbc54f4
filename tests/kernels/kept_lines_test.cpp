#include "kernels/tile_hand_over.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace varve::test {

template <class Tile>
class KeptLinesOf : public testing::Test {};
using HostTiles = testing::Types<TileShape<float, 16, 4, 1>, TileShape<float, 16, 1, 1>, TileShape<double, 8, 4, 1>,
                                 TileShape<double, 8, 1, 1>>;
TYPED_TEST_SUITE(KeptLinesOf, HostTiles);

TYPED_TEST(KeptLinesOf, KeptSamplesComeFirstAndInOrder) {
  using Tile = TypeParam;
  constexpr int num_neurons = 3;
  struct alignas(sizeof(typename Tile::PackType)) Activations {
    typename Tile::Scalar values[num_neurons * Tile::num_samples];
  } tile;
  for (int place = 0; place < num_neurons * Tile::num_samples; ++place) tile.values[place] = 1000 - 3 * place;
  std::mt19937 random(7);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<int> kept; // random: 1 sample in 1, 2, ... 5; none in the last trial
    for (int sample = 0; sample < Tile::num_samples && trial < 39; ++sample) {
      if (random() % (trial % 5 + 1) == 0) kept.push_back(sample);
    }
    KeptLines<Tile> const lines(ArrayView<int const>(kept.data(), kept.size()), static_cast<int>(kept.size()));
    for (int neuron = 0; neuron < num_neurons; ++neuron) {
      typename KeptLines<Tile>::Line line;
      lines.gather(line, ArrayView<typename Tile::Scalar const>(tile.values, num_neurons * Tile::num_samples), neuron);
      for (std::size_t i = 0; i < kept.size(); ++i)
        ASSERT_EQ(line.values[i], tile.values[neuron * Tile::num_samples + kept[i]]) << trial << ": " << i;
    }
  }
}

TEST(CopyValues, CopiesAsManyAsAskedAndNoMore) {
  std::vector<float> source(100);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i + 1);
  for (std::size_t count = 0; count <= source.size(); ++count) {
    std::vector<float> target(source.size() + 32, -1.0F);
    copy_values<16>(target.data(), source.data(), static_cast<int>(count));
    auto const end = target.begin() + static_cast<std::ptrdiff_t>(count);
    EXPECT_TRUE(std::equal(target.begin(), end, source.begin())) << count;
    EXPECT_TRUE(std::all_of(end, target.end(), [](float value) { return value == -1.0F; })) << count;
  }
}

} // namespace varve::test
