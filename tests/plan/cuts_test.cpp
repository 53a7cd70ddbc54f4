#include "plan/cuts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace varve {
namespace {

using testing::ElementsAre;

/// A device of round numbers.
DeviceTraits device() {
  DeviceTraits traits;
  for (auto& fused : traits.fused) {
    fused.max_neurons = 1000;
    fused.tile_samples = 8;
    fused.block_costs = {.launch = 1e-5, .weight = 1e-12, .moved_value = 1e-11, .full = 100.0};
    fused.single_costs = fused.block_costs;
  }
  traits.fused[1].tile_samples = 32;
  return traits;
}

PlannedLayer fused_layer(FusedTile tile = FusedTile::small) {
  PlannedLayer layer;
  layer.choice.format = FormatName::pattern_blocks;
  layer.choice.kernel = KernelName::fused;
  layer.choice.fused_tile = tile;
  layer.choice.num_edges = layer.choice.num_stored = 30000;
  layer.choice.tile_samples = tile == FusedTile::large ? 32 : 8;
  layer.num_outputs = 1000;
  layer.keeps_zero = true;
  return layer;
}

PlannedLayer direct_layer() {
  PlannedLayer layer = fused_layer();
  layer.choice.kernel = KernelName::direct;
  layer.choice.tile_samples = 64;
  return layer;
}

std::vector<std::size_t> first_layers(std::vector<Step> const& steps) {
  std::vector<std::size_t> first;
  for (auto const& step : steps) first.push_back(step.first_layer);
  return first;
}

TEST(Cuts, AreCloseAtFirstThenNone) {
  LaunchCutter const cutter(std::vector<PlannedLayer>(40, fused_layer()), device(), {});
  auto const steps = cutter.steps();
  EXPECT_THAT(first_layers(steps), ElementsAre(0, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(steps.back().last_layer, 39U);
  EXPECT_EQ(steps.back().choice.num_edges, 31U * 30000U);
  EXPECT_TRUE(steps.back().lists_live);
}

TEST(Cuts, ComeAfterTheLastLayerThatRevives) {
  std::vector<PlannedLayer> layers(20, fused_layer());
  layers[4].keeps_zero = false;
  auto const steps = LaunchCutter(layers, device(), {}).steps();
  EXPECT_THAT(first_layers(steps), ElementsAre(0, 5, 8, 9, 10, 11, 12, 13, 14));
  EXPECT_FALSE(steps[0].keeps_dead);
  layers[4].keeps_zero = true;
  layers[19].keeps_zero = false;
  auto const kept = LaunchCutter(layers, device(), {}).steps();
  EXPECT_THAT(first_layers(kept), ElementsAre(0));
  layers[12].choice.kernel = KernelName::direct;
  EXPECT_TRUE(LaunchCutter(layers, device(), {}).steps()[0].keeps_dead) << "layer 19 may revive them";
}

TEST(Cuts, LieWhereKernelTileOrSegmentChange) {
  std::vector<PlannedLayer> layers(30, fused_layer());
  for (auto& layer : layers) layer.keeps_zero = false; // no sample leaves
  layers[10] = direct_layer();
  layers[11] = direct_layer();
  layers[20] = fused_layer(FusedTile::large);
  for (std::size_t number = 25; number < layers.size(); ++number) layers[number].segment = 1;
  auto const steps = LaunchCutter(layers, device(), {}).steps();
  EXPECT_THAT(first_layers(steps), ElementsAre(0, 10, 11, 12, 20, 21, 25));
  EXPECT_EQ(steps[0].next_tile_samples, 64U);
  EXPECT_EQ(steps[3].next_tile_samples, 32U);
  EXPECT_EQ(steps[6].segment, 1U);
}

TEST(Cuts, LieBetweenStripsOfALayer) {
  std::vector<PlannedLayer> layers(12, direct_layer());
  for (std::size_t strip = 0; strip < 3; ++strip) {
    auto choice = direct_layer().choice;
    choice.num_edges = 1000 + strip;
    layers[10].strips.push_back({{strip * 400, strip == 2 ? 200U : 400U}, choice, 7 + strip});
  }
  auto const whole = LaunchCutter(std::vector<PlannedLayer>(12, direct_layer()), device(), {}).steps();
  auto const steps = LaunchCutter(layers, device(), {}).steps();
  EXPECT_THAT(first_layers(steps), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 11));
  for (std::size_t strip = 0; strip < 3; ++strip) {
    auto const& step = steps[10 + strip];
    EXPECT_EQ(step.last_layer, 10U);
    EXPECT_EQ(step.strip, strip);
    EXPECT_EQ(step.num_strips, 3U);
    EXPECT_EQ(step.segment, 7 + strip);
    EXPECT_EQ(step.choice.num_edges, 1000 + strip);
    EXPECT_EQ(step.ends_layer(), strip == 2);
    EXPECT_EQ(step.lists_live, strip == 2 && whole[10].lists_live);
    EXPECT_EQ(step.keeps_dead, whole[10].keeps_dead);
  }
  EXPECT_TRUE(whole[9].lists_live);
  EXPECT_EQ(steps[9].lists_live, whole[9].lists_live);
  EXPECT_EQ(steps[13].num_strips, 1U);
  EXPECT_TRUE(steps[13].ends_layer());
}

TEST(Cuts, SetTheFirstLayerApartWhereItTakesSamplesWithoutTiles) {
  std::vector<PlannedLayer> const layers(5, fused_layer());
  LaunchCutter cutter(layers, device(), {});
  EXPECT_THAT(first_layers(cutter.steps()), ElementsAre(0, 3, 4));
  LayerChoice own;
  own.kernel = KernelName::counts;
  own.index_bits = 16;
  own.num_stored = 7;
  cutter.set_first(FirstLayerInput::counts, own);
  auto const counted = cutter.steps();
  EXPECT_THAT(first_layers(counted), ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(counted[0].kernel, KernelName::counts);
  EXPECT_FALSE(counted[0].lists_live);
  EXPECT_EQ(counted[0].choice.num_stored, 7U) << "of the second copy, not of the layer";
  EXPECT_EQ(counted[0].choice.index_bits, 16);
  own.kernel = KernelName::bits;
  own.index_bits = 32;
  cutter.set_first(FirstLayerInput::bits, own);
  EXPECT_EQ(cutter.steps()[0].kernel, KernelName::bits);
  EXPECT_EQ(cutter.steps()[0].choice.index_bits, 32);
  cutter.set_first(FirstLayerInput::own_bits, {});
  EXPECT_EQ(cutter.steps()[0].kernel, KernelName::fused);
  EXPECT_TRUE(cutter.steps()[0].reads_bits);
}

TEST(Cuts, OfCapsFindSaturatedSamples) {
  std::vector<PlannedLayer> layers(60, fused_layer(FusedTile::large));
  for (auto& layer : layers) layer.cap = layer.kept_cap = 2.0;
  LaunchCutter const cutter(layers, device(), {.finds_saturated = true});
  EXPECT_EQ(cutter.saturates_from(), 1U);
  EXPECT_EQ(cutter.saturated_value(), 2.0);
  auto const steps = cutter.steps();
  EXPECT_THAT(first_layers(steps), ElementsAre(0, 3, 4, 5, 6, 7, 8, 9, 12, 14, 16, 20));
  EXPECT_EQ(steps[0].choice.fused_tile, FusedTile::large);
  EXPECT_EQ(steps.back().choice.fused_tile, FusedTile::small) << "few are left";
  EXPECT_FALSE(steps[8].lists_saturated) << "layer 13 is the last of this launch";
  EXPECT_TRUE(steps[9].lists_saturated);
  EXPECT_EQ(LaunchCutter(layers, device(), {}).saturates_from(), 60U) << "not asked for";
}

TEST(Cuts, OfLayersByThemselvesListTheLiveNowAndThen) {
  LaunchCutter const cutter(std::vector<PlannedLayer>(40, direct_layer()), device(), {.finds_equal = true});
  std::vector<std::size_t> lists;
  std::vector<std::size_t> joins;
  for (auto const& step : cutter.steps()) {
    if (step.lists_live) lists.push_back(step.last_layer + 1);
    if (step.joins_equal) joins.push_back(step.last_layer + 1);
  }
  EXPECT_THAT(lists, ElementsAre(3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40));
  EXPECT_THAT(joins, ElementsAre(8, 9, 16, 24, 32));
}

TEST(Cuts, OfARunOfConesAreOneStep) {
  std::vector<PlannedLayer> layers(6, direct_layer());
  layers[2].choice.format = FormatName::cones;
  layers[2].choice.kernel = KernelName::cones;
  layers[2].choice.num_layers = 3;
  layers[2].choice.num_stored = 77;
  auto const steps = LaunchCutter(layers, device(), {}).steps();
  EXPECT_THAT(first_layers(steps), ElementsAre(0, 1, 2, 5));
  EXPECT_EQ(steps[2].last_layer, 4U);
  EXPECT_EQ(steps[2].choice.num_stored, 77U);
  EXPECT_EQ(steps[2].choice.num_edges, 90000U);
}

TEST(Cuts, AreLearnedFromTheSamples) {
  LaunchCutter cutter(std::vector<PlannedLayer>(200, fused_layer()), device(), {});
  EXPECT_TRUE(cutter.learn({{0, 1.0}, {3, 0.5}, {9, 0.2}, {200, 0.2}}, 100));
  EXPECT_THAT(first_layers(cutter.steps()), ElementsAre(0)) << "too few samples to fill the device: nothing is gained";
  EXPECT_TRUE(cutter.learn({{0, 1.0}, {100, 1.0}, {101, 0.01}, {200, 0.01}}, 1000000));
  EXPECT_THAT(first_layers(cutter.steps()), ElementsAre(0, 101));
  EXPECT_FALSE(cutter.learn({{0, 1.0}, {100, 1.0}, {101, 0.01}, {200, 0.01}}, 1000000)) << "known already";
}

} // namespace
} // namespace varve
