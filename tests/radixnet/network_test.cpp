#include "radixnet/network.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "network/analysis.hpp"
#include "network/official_network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

namespace varve {
namespace {

using test::OfficialNetwork;

constexpr std::size_t kNodes = 64; ///< nodes of the official network of 1024 neurons
constexpr std::size_t kLayersPerReplica = 6;

/// The 16 inputs that belong to each node: what its outputs and those of the node before it in the butterfly both read.
std::vector<std::vector<NeuronIndex>> inputs_of_nodes(Layer const& layer, std::size_t offset) {
  std::vector<std::vector<NeuronIndex>> inputs(kNodes);
  for (std::size_t node = 0; node < kNodes; ++node) {
    std::ranges::set_intersection(layer.weights.row_columns(node),
                                  layer.weights.row_columns((node + kNodes - offset) % kNodes),
                                  std::back_inserter(inputs[node]));
  }
  return inputs;
}

/// The inputs of the nodes in each replica, after checking that they are the same in all of its layers.
std::vector<std::vector<std::vector<NeuronIndex>>> replicas_of(NetworkSource const& network) {
  std::vector<std::vector<std::vector<NeuronIndex>>> replicas;
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    std::size_t const place = number % kLayersPerReplica;
    if (place + 1 == kLayersPerReplica) continue; // node and partner read the same there: nothing tells them apart
    auto const inputs = inputs_of_nodes(network.layer(number), std::size_t{1} << place);
    if (place == 0) replicas.push_back(inputs);
    EXPECT_EQ(inputs, replicas.back()) << "layer " << number;
  }
  return replicas;
}

TEST(RadixNet, FirstReplicaIsTheOfficialOne) {
  RadixNet const network(1024, 120, 1);
  for (std::size_t number = 0; number < kLayersPerReplica; ++number) {
    EXPECT_EQ(network.layer(number), OfficialNetwork().layer(number)) << "layer " << number;
  }
}

TEST(RadixNet, EveryLayerHasTheOfficialStructure) {
  auto const ours = analyse(RadixNet(1024, 120, 1));
  auto const official = analyse(OfficialNetwork());
  EXPECT_EQ(ours, official);
  EXPECT_EQ(official.layers[0].num_pattern_groups, 64U);
  EXPECT_EQ(official.layers[5].num_pattern_groups, 32U);
  EXPECT_EQ(official.layers[5].largest_pattern_group, 32U);
  EXPECT_EQ(official.num_edges, 120U * 32768U);
}

TEST(RadixNet, EveryReplicaHasOnePermutationOfItsOwnAsTheOfficialOnesDo) {
  auto const official = replicas_of(OfficialNetwork());
  auto const ours = replicas_of(RadixNet(1024, 120, 1));
  ASSERT_EQ(official.size(), 20U);
  ASSERT_EQ(ours.size(), 20U);
  EXPECT_EQ(ours.front(), official.front());
  EXPECT_EQ((std::set(official.begin(), official.end()).size()), 20U);
  EXPECT_EQ((std::set(ours.begin(), ours.end()).size()), 20U);
}

TEST(RadixNet, EveryOutputOfAReplicaDependsOnEveryInput) {
  for (std::size_t const neurons : {32U, 64U, 512U}) {
    auto const layers_per_replica = static_cast<std::size_t>(std::countr_zero(neurons / 16));
    RadixNet const network(neurons, 2 * layers_per_replica, 5);
    std::vector<std::bitset<512>> depends(neurons);
    for (std::size_t neuron = 0; neuron < neurons; ++neuron) depends[neuron].set(neuron);
    for (std::size_t number = layers_per_replica; number < 2 * layers_per_replica; ++number) {
      auto const layer = network.layer(number);
      std::vector<std::bitset<512>> next(neurons);
      for (std::size_t output = 0; output < neurons; ++output) {
        for (auto const input : layer.weights.row_columns(output)) next[output] |= depends[input];
      }
      depends = next;
    }
    for (auto const& inputs : depends) EXPECT_EQ(inputs.count(), neurons);
  }
}

TEST(RadixNet, HasAnyPowerOfTwo) {
  for (std::size_t neurons = 32; neurons <= 8192; neurons *= 2) {
    RadixNet const network(neurons, 25, 3);
    std::size_t outputs_before = neurons;
    for (std::size_t number = 0; number < network.num_layers(); ++number) {
      auto const layer = network.layer(number);
      require_valid(layer, number);
      require_fit(outputs_before, layer, number);
      auto const analysis = analyse(layer);
      EXPECT_EQ(analysis.min_degree, 32U);
      EXPECT_EQ(analysis.max_degree, 32U);
      EXPECT_EQ(analysis.num_unread_inputs, 0U);
      EXPECT_TRUE(analysis.is_iso);
      outputs_before = layer.num_outputs();
    }
  }
}

TEST(RadixNet, DependsOnNothingButTheSeed) {
  RadixNet const network(1024, 60, 7);
  auto const whole = load(network);
  std::vector<Layer> backwards(60);
  for_each_on_host_threads(60, [&](std::size_t index) { backwards[59 - index] = network.layer(59 - index); });
  EXPECT_EQ(backwards, whole.layers());
  RadixNet const longer(1024, 120, 7);
  EXPECT_EQ(longer.layer(59), network.layer(59));
  RadixNet const other(1024, 60, 8);
  EXPECT_EQ(other.layer(5), network.layer(5));
  EXPECT_NE(other.layer(6), network.layer(6));
}

TEST(RadixNet, IsTheSameOnEveryPlatform) {
  auto const layer = RadixNet(1024, 12, 1).layer(6);
  auto const inputs = layer.weights.row_columns(0);
  EXPECT_EQ((std::vector<NeuronIndex>(inputs.begin(), inputs.begin() + 4)), (std::vector<NeuronIndex>{2, 6, 35, 86}));
}

TEST(RadixNet, TakesTheBiasFromTheChallenge) {
  EXPECT_EQ(radixnet_bias(4096), -0.35);
  EXPECT_EQ(RadixNet(65536, 1, 1).layer(0).bias, std::vector{-0.45});
  EXPECT_DOUBLE_EQ(radixnet_bias(2048), -0.325);
  EXPECT_DOUBLE_EQ(radixnet_bias(256), -0.25);
  EXPECT_DOUBLE_EQ(radixnet_bias(262144), -0.5);
  auto const layer = RadixNet(1024, 1, 1, 0.5, 3.0).layer(0);
  EXPECT_EQ(layer.bias, std::vector{0.5});
  EXPECT_EQ(layer.activation, Activation::clipped_relu(3.0));
  EXPECT_EQ(RadixNet(64, 3, 9).name(), "RadiX-Net of 64 neurons and 3 layers from seed 9");
}

TEST(RadixNet, RefusesWhatHasNoSuchStructure) {
  EXPECT_THROW(RadixNet(0, 1, 1), UsageError);
  EXPECT_THROW(RadixNet(16, 1, 1), UsageError);
  EXPECT_THROW(RadixNet(1000, 1, 1), UsageError);
  EXPECT_THROW(RadixNet(std::size_t{1} << 32U, 1, 1), UsageError);
  EXPECT_THROW(RadixNet(1024, 0, 1), UsageError);
  EXPECT_THROW(RadixNet(1024, 1, 1, std::nan("")), UsageError);
  EXPECT_THROW(RadixNet(1024, 1, 1, 0.0, 0.0), UsageError);
  EXPECT_THROW(RadixNet(1024, 1, 1, 0.0, std::numeric_limits<double>::infinity()), UsageError);
  EXPECT_THROW(RadixNet(1024, 1, 1).layer(1), std::logic_error);
}

} // namespace
} // namespace varve
