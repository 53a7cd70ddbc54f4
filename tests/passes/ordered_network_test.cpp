#include "passes/edge_order.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace varve {
namespace {

std::shared_ptr<NetworkSource const> random_network(std::vector<std::size_t> widths) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.degree = 16;
  return std::make_shared<RandomNetwork>(recipe);
}

TEST(EdgeOrders, HaveNames) {
  for (EdgeOrder const order : {EdgeOrder::ascending, EdgeOrder::balanced})
    EXPECT_EQ(parse_edge_order(to_string(order)), order);
  EXPECT_EQ(parse_edge_order("balanced"), EdgeOrder::balanced);
  EXPECT_THROW(parse_edge_order("auto"), UsageError);
}

TEST(OrderedNetworks, OrderTheLayersThatGain) {
  auto const source = random_network({300, 400, 200, 40, 1030, 4096, 4097});
  OrderedNetwork const network(source, EdgeOrder::balanced);
  EXPECT_EQ(network.num_layers(), 6U);
  EXPECT_EQ(network.name(), source->name());
  std::vector<bool> const is_ordered = {true, true, false, false, true, false}; // 200 are too few, 4097 too many
  for (std::size_t number = 0; number < 6; ++number) {
    Layer expected = source->layer(number);
    if (is_ordered[number]) balance_edges(expected.weights);
    EXPECT_EQ(network.layer(number), expected);
    EXPECT_EQ(is_ascending(network.layer(number).weights), !is_ordered[number]);
  }
}

TEST(OrderedNetworks, LeaveSharedPatternsAndAscendingOrdersAlone) {
  auto const shared = std::make_shared<RadixNet>(1024, 3, 1);
  auto const wide = std::make_shared<RadixNet>(4096, 2, 1);
  EXPECT_TRUE(is_ascending(OrderedNetwork(wide, EdgeOrder::balanced).layer(0).weights)) << "outputs share whole lists";
  OrderedNetwork const network(shared, EdgeOrder::balanced);
  OrderedNetwork const ascending(random_network({300, 300}), EdgeOrder::ascending);
  for (std::size_t number = 0; number < 3; ++number) EXPECT_EQ(network.layer(number), shared->layer(number));
  EXPECT_TRUE(is_ascending(ascending.layer(0).weights));
  EXPECT_EQ(network.report().num_layers, 0U);
  EXPECT_EQ(ascending.report().num_layers, 0U);
}

/// Output j reads inputs j, j + 5, j + 10 ...: in each step, neighbouring outputs read neighbouring banks, but for the
/// few whose inputs wrap around.
Network network_without_conflicts() {
  constexpr std::size_t neurons = 512;
  Layer layer;
  layer.weights.num_rows = layer.weights.num_columns = neurons;
  layer.weights.values = {0.5};
  for (std::size_t output = 0; output < neurons; ++output) {
    std::vector<NeuronIndex> inputs;
    for (std::size_t i = 0; i < 16; ++i) inputs.push_back(static_cast<NeuronIndex>((output + 5 * i) % neurons));
    std::ranges::sort(inputs);
    layer.weights.column_indices.insert(layer.weights.column_indices.end(), inputs.begin(), inputs.end());
    layer.weights.row_pointers.push_back(layer.weights.num_entries());
  }
  layer.bias = {0.0};
  return Network({layer});
}

TEST(OrderedNetworks, LeaveLayersAloneThatHaveFewConflicts) {
  auto const source = std::make_shared<Network>(network_without_conflicts());
  ASSERT_TRUE(suits_balanced_edges(source->layer(0).weights));
  OrderedNetwork const network(source, EdgeOrder::balanced);
  EXPECT_EQ(network.layer(0), source->layer(0));
  EXPECT_EQ(network.report().num_layers, 0U);
  OrderedNetwork const forced(source, EdgeOrder::forced);
  EXPECT_NE(forced.layer(0), source->layer(0));
}

TEST(OrderedNetworks, OrderAllButTheWidestIfTold) {
  OrderedNetwork const network(random_network({20, 1024, 1025, 40}), EdgeOrder::forced);
  EXPECT_FALSE(is_ascending(network.layer(0).weights));
  EXPECT_TRUE(is_ascending(network.layer(1).weights));
  EXPECT_TRUE(is_ascending(network.layer(2).weights));
}

TEST(OrderedNetworks, ReportWhatWasGained) {
  auto const source = random_network({300, 300, 300, 40});
  OrderedNetwork const network(source, EdgeOrder::balanced);
  EXPECT_EQ(network.report().num_layers, 0U);
  BankUse ascending;
  for (std::size_t number = 0; number < 3; ++number) {
    network.layer(number);
    network.layer(number); // counts once
    ascending += bank_use(source->layer(number).weights, {});
  }
  auto const report = network.report();
  EXPECT_EQ(report.num_layers, 3U);
  EXPECT_EQ(report.ascending, ascending);
  EXPECT_EQ(report.chosen.num_steps, ascending.num_steps);
  EXPECT_GT(report.ascending.wavefronts_per_step(), 1.8);
  EXPECT_LT(report.chosen.wavefronts_per_step(), 1.2);
  EXPECT_GT(report.seconds, 0.0);
}

TEST(OrderedNetworks, MayBeReadByManyThreads) {
  OrderedNetwork const network(random_network(std::vector<std::size_t>(21, 300)), EdgeOrder::balanced);
  std::vector<Layer> layers(60);
  for_each_on_host_threads(layers.size(), [&](std::size_t i) { layers[i] = network.layer(i % 20); });
  for (std::size_t i = 20; i < 60; ++i) EXPECT_EQ(layers[i], layers[i % 20]);
  EXPECT_EQ(network.report().num_layers, 20U);
}

} // namespace
} // namespace varve
