#include "plan/cuts.hpp"

#include "engine/random_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace varve {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr LaunchCosts costs{.launch = 10.0, .weight = 0.01, .moved_value = 0.02, .full = 4.0};

PlannedLayer layer_of(std::size_t num_stored, std::size_t num_outputs) {
  PlannedLayer layer;
  layer.choice.num_stored = num_stored;
  layer.num_outputs = num_outputs;
  return layer;
}

std::vector<PlannedLayer> equal_layers(std::size_t count) { return {count, layer_of(100, 10)}; }

/// The least of all ways to cut, which are counted through.
double min_of_all(std::vector<PlannedLayer> const& layers, std::vector<double> const& live) {
  double least = 1e300;
  for (std::size_t way = 0; way < std::size_t(1) << (layers.size() - 1); ++way) {
    std::vector<std::size_t> cuts;
    for (std::size_t layer = 1; layer < layers.size(); ++layer) {
      if ((way >> (layer - 1) & 1U) != 0) cuts.push_back(layer);
    }
    least = std::min(least, seconds_of(cuts, layers, live, costs));
  }
  return least;
}

TEST(LaunchCuts, TakesTheTimeOfItsLaunches) {
  std::vector<PlannedLayer> const layers{layer_of(100, 10), layer_of(200, 20), layer_of(50, 5)};
  std::vector<double> const live{8.0, 8.0, 6.0, 2.0};
  // 8 samples through 300 weights, 6 through 50; 6 samples of 20 activations and 2 of 5 are moved
  EXPECT_DOUBLE_EQ(seconds_of({2}, layers, live, costs),
                   2 * 10.0 + 0.01 * (8 * 300 + 6 * 50) + 0.02 * (6 * 20 + 2 * 5));
  EXPECT_DOUBLE_EQ(seconds_of({}, layers, live, costs), 10.0 + 0.01 * 8 * 350 + 0.02 * 2 * 5);
  EXPECT_DOUBLE_EQ(seconds_of({}, layers, std::vector<double>(4, 1.0), costs), 10.0 + 0.01 * 4 * 350 + 0.02 * 5)
      << "fewer samples than fill the device";
}

TEST(LaunchCuts, IsLeftOutWhereNobodyLeaves) {
  EXPECT_THAT(choose_cuts(equal_layers(20), std::vector<double>(21, 1000.0), costs).cuts, ElementsAre());
}

TEST(LaunchCuts, ComesRightAfterMostHaveLeft) {
  std::vector<double> live(21, 1000.0);
  for (std::size_t layer = 7; layer < live.size(); ++layer) live[layer] = 10.0;
  EXPECT_THAT(choose_cuts(equal_layers(20), live, costs).cuts, ElementsAre(7));
}

TEST(LaunchCuts, IsNotWorthALaunchWhereTheDeviceIsNotFull) {
  std::vector<double> live(21, 3.0);
  for (std::size_t layer = 7; layer < live.size(); ++layer) live[layer] = 1.0;
  EXPECT_THAT(choose_cuts(equal_layers(20), live, costs).cuts, ElementsAre());
}

TEST(LaunchCuts, IsTheBestOfAllWays) {
  test::RandomCases random(5);
  for (int repetition = 0; repetition < 200; ++repetition) {
    std::vector<PlannedLayer> layers(1 + random.below(10));
    for (auto& layer : layers) {
      auto const num_stored = 1 + random.below(300);
      layer = layer_of(num_stored, 1 + random.below(40));
    }
    std::vector<double> live{static_cast<double>(1 + random.below(200))};
    while (live.size() <= layers.size()) live.push_back(live.back() * static_cast<double>(random.below(11)) / 10.0);
    auto const packing = choose_cuts(layers, live, costs);
    EXPECT_NEAR(packing.seconds, min_of_all(layers, live), 1e-9);
    EXPECT_NEAR(packing.seconds, seconds_of(packing.cuts, layers, live, costs), 1e-9);
  }
}

TEST(LiveShares, FallBetweenThoseThatAreKnown) {
  auto const near = [](double share) { return DoubleNear(share, 1e-12); };
  EXPECT_THAT(live_shares({{0, 1.0}, {2, 1.0}, {4, 0.25}}, 6),
              ElementsAre(near(1.0), near(1.0), near(1.0), near(0.5), near(0.25), near(0.25), near(0.25)));
  EXPECT_THAT(live_shares({{0, 1.0}}, 2), ElementsAre(near(1.0), near(1.0), near(1.0)));
  auto const died = live_shares({{0, 1.0}, {1, 0.0}, {2, 0.0}}, 3);
  EXPECT_THAT(died, ElementsAre(near(1.0), near(0.0), near(0.0), near(0.0)));
}

} // namespace
} // namespace varve
