#include "passes/pruned_network.hpp"

#include "io/random_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Generator;
using test::random_matrix;
using test::Values;

/// An edge of a network: layer, place in its row-by-row list, absolute weight.
struct RankedEdge {
  std::size_t layer;
  EdgeOffset number;
  double magnitude;
};

/// What is to be kept, by sorting all edges: for each layer the numbers of its edges.
std::vector<std::vector<EdgeOffset>> kept_edges(Network const& network, double density, PruneScope scope) {
  std::vector<std::vector<EdgeOffset>> kept(network.num_layers());
  auto const keep = [&](std::vector<RankedEdge> edges, double places) {
    std::ranges::stable_sort(edges, std::greater<>(), &RankedEdge::magnitude); // equal ones stay in their order
    auto const count = static_cast<std::size_t>(std::floor(density * places + 0.5));
    edges.resize(std::min(count, edges.size()));
    for (auto const& edge : edges) kept[edge.layer].push_back(edge.number);
  };
  std::vector<RankedEdge> all;
  double all_places = 0.0;
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    auto const& weights = network.layers()[number].weights;
    std::vector<RankedEdge> edges;
    for (EdgeOffset edge = 0; edge < weights.num_entries(); ++edge)
      edges.push_back({number, edge, std::abs(weights.value(edge))});
    auto const places = static_cast<double>(weights.num_rows) * static_cast<double>(weights.num_columns);
    all.insert(all.end(), edges.begin(), edges.end());
    all_places += places;
    if (scope == PruneScope::layer) keep(edges, places);
  }
  if (scope == PruneScope::network) keep(all, all_places);
  for (auto& edges : kept) std::ranges::sort(edges);
  return kept;
}

/// The edges of a layer as (row, column, value).
using Places = std::vector<std::tuple<std::size_t, NeuronIndex, double>>;
Places places_of(SparseMatrix const& matrix) {
  Places places;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (auto edge = matrix.row_pointers[row]; edge < matrix.row_pointers[row + 1]; ++edge)
      places.emplace_back(row, matrix.column_indices[edge], matrix.value(edge));
  }
  return places;
}

void expect_pruned(Network const& network, double density, PruneScope scope) {
  PrunedNetwork const pruned(network, density, scope);
  ASSERT_EQ(pruned.num_layers(), network.num_layers());
  auto const kept = kept_edges(network, density, scope);
  for (std::size_t number = network.num_layers(); number-- > 0;) { // layers can be read in any order
    auto const layer = pruned.layer(number);
    auto const& before = network.layers()[number];
    require_valid(layer, number);
    EXPECT_EQ(layer.bias, before.bias);
    EXPECT_EQ(layer.activation, before.activation);
    EXPECT_EQ(layer.weights.num_columns, before.num_inputs());
    auto const all = places_of(before.weights);
    Places expected;
    for (auto const edge : kept[number]) expected.push_back(all[edge]);
    EXPECT_EQ(places_of(layer.weights), expected) << "layer " << number << ", density " << density;
  }
}

Network network_of(Values values, double density) {
  Generator generator(5);
  std::vector<Layer> layers;
  std::vector<std::size_t> const widths = {30, 17, 1, 40};
  for (std::size_t number = 0; number + 1 < widths.size(); ++number) {
    auto weights = random_matrix(generator, widths[number + 1], widths[number], density, values);
    for (auto& weight : weights.values) weight *= number == 1 ? 8.0 : 1.0; // layer 1 has larger weights
    layers.push_back({std::move(weights), {0.5}, Activation::relu()});
  }
  return Network(std::move(layers));
}

TEST(PrunedNetwork, KeepsTheLargestWeights) {
  for (auto const scope : {PruneScope::layer, PruneScope::network}) {
    for (double const density : {1e-6, 0.01, 0.05, 0.3, 0.5, 1.0}) {
      for (double const filled : {0.0, 0.4, 1.0}) {
        expect_pruned(network_of(Values::doubles, filled), density, scope);
        expect_pruned(network_of(Values::one_for_all, filled), density, scope);
      }
    }
  }
}

TEST(PrunedNetwork, OfEqualWeightsTheFirstStay) {
  // 3 outputs, 4 inputs, dense: absolute weights 1, 2, 2, 2 | 0, 2, 1, 2 | 2, 2, 3, 0
  Layer const layer{
      {3, 4, {0, 4, 8, 12}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}, {1, -2, 2, 2, 0, 2, 1, -2, 2, -2, -3, 0}},
      {0.0},
      Activation::relu()};
  Network const network({layer});
  for (auto const scope : {PruneScope::layer, PruneScope::network}) {
    for (std::size_t count = 0; count <= 12; ++count)
      expect_pruned(network, std::max(1e-9, static_cast<double>(count) / 12.0), scope);
    auto const kept = PrunedNetwork(network, 0.42, scope).layer(0); // 5.04 of 12 places
    EXPECT_EQ(kept.weights.row_pointers, (std::vector<EdgeOffset>{0, 3, 4, 5}));
    EXPECT_EQ(kept.weights.column_indices, (std::vector<NeuronIndex>{1, 2, 3, 1, 2}));
    EXPECT_EQ(kept.weights.values, (std::vector<double>{-2, 2, 2, 2, -3}));
  }
}

TEST(PrunedNetwork, EqualWeightsAcrossLayersStayInTheFirstLayers) {
  SparseMatrix const ones{2, 2, {0, 2, 4}, {0, 1, 0, 1}, {1.0}};
  Network const network({{ones, {0.0}, Activation::relu()}, {ones, {0.0}, Activation::relu()}});
  expect_pruned(network, 0.625, PruneScope::network);
  EXPECT_EQ(PrunedNetwork(network, 0.625, PruneScope::network).layer(0).num_edges(), 4U);
  EXPECT_EQ(PrunedNetwork(network, 0.625, PruneScope::network).layer(1).num_edges(), 1U);
  EXPECT_EQ(PrunedNetwork(network, 0.625, PruneScope::layer).layer(1).num_edges(), 3U); // 2.5 rounded up
}

TEST(PrunedNetwork, DensitiesCountExactly) {
  EXPECT_EQ(edges_at(0.05, 784 * 512), 20070U); // 20070.4
  EXPECT_EQ(edges_at(0.5, 5), 3U);
  EXPECT_EQ(edges_at(1.0, 401408), 401408U);
  EXPECT_EQ(edges_at(1e-9, 401408), 0U);
}

} // namespace
} // namespace varve
