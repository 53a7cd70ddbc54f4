#include "passes/cones.hpp"

#include "passes/stride_network.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace varve {
namespace {

/// What a layer makes of its inputs, in exact numbers: weights do not matter for who reads what.
std::vector<std::uint64_t> forward(Layer const& layer, std::vector<std::uint64_t> const& inputs) {
  std::vector<std::uint64_t> outputs;
  for (std::size_t output = 0; output < layer.num_outputs(); ++output) {
    std::uint64_t value = output + 1;
    for (NeuronIndex const input : layer.weights.row_columns(output))
      value = value * 0x9E3779B97F4A7C15ULL + inputs[input];
    outputs.push_back(value);
  }
  return outputs;
}

/// Runs the steps of a cone in slots, each group reading before it writes, and gives the outputs it computes.
std::vector<std::uint64_t> run(std::vector<Layer> const& layers, Cone const& cone,
                               std::vector<std::uint64_t> const& inputs, ConeLimits limits) {
  std::vector<std::uint64_t> slots(limits.max_slots, 0);
  for (std::size_t i = 0; i < cone.inputs.size(); ++i) slots[i] = inputs[cone.inputs[i]];
  std::size_t edge = 0;
  for (std::size_t first = 0; first < cone.steps.size();) {
    std::vector<std::uint64_t> results;
    std::size_t last = first;
    for (; last < cone.steps.size() && last < first + limits.group_size &&
           cone.steps[last].layer == cone.steps[first].layer;
         ++last) {
      std::uint64_t value = cone.steps[last].neuron + 1;
      std::size_t const degree = layers[cone.steps[last].layer].weights.row_size(cone.steps[last].neuron);
      for (std::size_t i = 0; i < degree; ++i)
        value = value * 0x9E3779B97F4A7C15ULL + slots.at(cone.edge_slots.at(edge++));
      results.push_back(value);
    }
    for (std::size_t i = 0; i < results.size(); ++i) slots.at(cone.steps[first + i].target) = results[i];
    first = last;
  }
  EXPECT_EQ(edge, cone.edge_slots.size());
  std::vector<std::uint64_t> outputs;
  for (auto const slot : cone.output_slots) outputs.push_back(slots.at(slot));
  return outputs;
}

void expect_cones_compute_the_layers(std::vector<Layer> const& layers, ConeRun const& found, ConeLimits limits) {
  std::vector<std::uint64_t> values(layers.front().num_inputs());
  std::iota(values.begin(), values.end(), 77U);
  auto const inputs = values;
  for (auto const& layer : layers) values = forward(layer, values);
  std::vector<int> times(values.size(), 0);
  for (auto const& cone : found.cones) {
    EXPECT_LE(cone.num_rounds, limits.max_rounds);
    auto const outputs = run(layers, cone, inputs, limits);
    ASSERT_EQ(outputs.size(), cone.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i], values[cone.outputs[i]]) << "output " << cone.outputs[i];
      ++times[cone.outputs[i]];
    }
  }
  EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << "each output is in one cone";
}

TEST(Cones, ComputeRunsOfButterflies) {
  RandomStream random(1, 0);
  auto const all = test::butterfly_layers(256, 8, random);
  for (std::size_t const group_size : {1U, 4U}) {
    ConeLimits const limits{80, group_size, 1000};
    for (std::size_t first = 0; first < all.size(); ++first) {
      for (std::size_t count = 1; count <= 4 && first + count <= all.size(); ++count) {
        SCOPED_TRACE(testing::Message() << "layers " << first << " and " << count - 1 << " more");
        std::vector<Layer> const layers(all.begin() + static_cast<std::ptrdiff_t>(first),
                                        all.begin() + static_cast<std::ptrdiff_t>(first + count));
        auto const found = find_cones(layers, limits);
        ASSERT_TRUE(found);
        expect_cones_compute_the_layers(layers, *found, limits);
      }
    }
  }
}

TEST(Cones, OfRandomLayersComputeThem) {
  RandomStream random(2, 0);
  int num_found = 0;
  for (int repetition = 0; repetition < 200; ++repetition) {
    std::size_t const width = 1 + random.below(60);
    std::vector<Layer> layers;
    std::size_t inputs = width;
    for (std::size_t i = 0; i <= random.below(4); ++i) {
      std::size_t const outputs = 1 + random.below(60);
      std::vector<std::size_t> strides(1 + random.below(5));
      for (auto& stride : strides) stride = random.below(inputs);
      layers.push_back(test::stride_layer(outputs, inputs, strides, random));
      inputs = outputs;
    }
    ConeLimits const limits{16 + random.below(64), 1 + random.below(4), 1000};
    auto const found = find_cones(layers, limits);
    if (!found) continue;
    ++num_found;
    SCOPED_TRACE(testing::Message() << "repetition " << repetition);
    expect_cones_compute_the_layers(layers, *found, limits);
  }
  EXPECT_GT(num_found, 50);
  EXPECT_LT(num_found, 200) << "some are too wide";
}

TEST(Cones, AreTheComponentsWhereLayersFallApart) {
  RandomStream random(3, 0);
  std::vector<Layer> layers;
  for (std::size_t const stride : {16U, 32U, 64U}) layers.push_back(test::stride_layer(128, 128, {0, stride}, random));
  auto const found = find_cones(layers, {16, 1, 1000}); // components of 8
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cones.size(), 16U);
  std::size_t num_inputs = 0;
  std::size_t num_steps = 0;
  for (auto const& cone : found->cones) {
    num_inputs += cone.inputs.size();
    num_steps += cone.steps.size();
  }
  EXPECT_EQ(num_inputs, 128U) << "no input is in two cones";
  EXPECT_EQ(num_steps, 3 * 128U);
}

TEST(Cones, AreNotFoundWhereOneOutputNeedsTooMuch) {
  RandomStream random(4, 0);
  std::vector<Layer> layers;
  for (int i = 0; i < 4; ++i) layers.push_back(test::stride_layer(81, 81, {0, 27, 54, 1, 3}, random));
  EXPECT_FALSE(find_cones(layers, {24, 1, 1000}));
  EXPECT_FALSE(find_cones(std::vector<Layer>(layers.begin(), layers.begin() + 1), {24, 1, 2})) << "too many rounds";
}

TEST(Cones, NeedAnEdgePerOutputAndFewOfThem) {
  RandomStream random(5, 0);
  Layer layer = test::stride_layer(10, 10, {0, 3}, random);
  EXPECT_TRUE(suits_cones(layer));
  EXPECT_FALSE(suits_cones(test::stride_layer(10, 10, {0, 1, 2, 3}, random)));
  layer.weights.row_pointers.push_back(layer.weights.num_entries());
  ++layer.weights.num_rows;
  EXPECT_FALSE(suits_cones(layer)) << "an output without edges";
  EXPECT_FALSE(suits_cones(RadixNet(64, 1, 1).layer(0)));
}

TEST(Cones, ArePlacedWhereTheyPay) {
  RandomStream random(6, 0);
  auto layers = test::butterfly_layers(256, 8, random);
  layers.insert(layers.begin() + 4, test::stride_layer(256, 256, {0, 1, 2, 3, 4, 5, 6, 7}, random));
  auto const placed = place_cone_runs(layers, {80, 4, 1000}, 3.0);
  std::vector<bool> is_placed(layers.size(), false);
  for (auto const& run : placed) {
    auto const first = run.first_layer;
    for (std::size_t i = 0; i < run.num_layers; ++i) {
      EXPECT_FALSE(is_placed[first + i]) << "in two runs";
      is_placed[first + i] = true;
    }
    expect_cones_compute_the_layers({layers.begin() + static_cast<std::ptrdiff_t>(first),
                                     layers.begin() + static_cast<std::ptrdiff_t>(first + run.num_layers)},
                                    run, {80, 4, 1000});
  }
  EXPECT_EQ(is_placed, (std::vector<bool>{true, true, true, true, false, true, true, true, true}));
  EXPECT_LE(placed.size(), 4U) << "several layers to a run";
  EXPECT_TRUE(place_cone_runs(layers, {80, 4, 1000}, 0.1).empty()) << "other kernels are said to be quicker";
}

} // namespace
} // namespace varve
