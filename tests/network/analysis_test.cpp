#include "network/analysis.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace varve {
namespace {

struct Edge {
  NeuronIndex input;
  double weight;
};

Layer layer_of(std::size_t inputs, std::vector<std::vector<Edge>> const& outputs) {
  Layer layer;
  layer.weights.num_rows = outputs.size();
  layer.weights.num_columns = inputs;
  for (auto const& edges : outputs) {
    for (auto const& edge : edges) {
      layer.weights.column_indices.push_back(edge.input);
      layer.weights.values.push_back(edge.weight);
    }
    layer.weights.row_pointers.push_back(layer.weights.column_indices.size());
  }
  require_valid(layer, 0);
  return layer;
}

/// Equal patterns with equal and with different weights, equal weights with another pattern, two empty outputs, one
/// input that nobody reads.
Layer crafted_layer() {
  return layer_of(5, {{{0, 1.0}, {2, 2.0}},
                      {{0, 1.0}, {2, 2.0}},
                      {{0, 1.0}, {2, 3.0}},
                      {{1, 1.0}, {2, 2.0}},
                      {},
                      {{0, 1.0}, {1, 2.0}, {4, 3.0}},
                      {}});
}

TEST(Analysis, CountsWhatIsThere) {
  auto const analysis = analyse(crafted_layer());
  EXPECT_EQ(analysis.num_inputs, 5U);
  EXPECT_EQ(analysis.num_outputs, 7U);
  EXPECT_EQ(analysis.num_edges, 11U);
  EXPECT_EQ(analysis.min_degree, 0U);
  EXPECT_DOUBLE_EQ(analysis.mean_degree, 11.0 / 7.0);
  EXPECT_EQ(analysis.max_degree, 3U);
  EXPECT_EQ(analysis.num_pattern_groups, 4U); // {0 2} {1 2} {} {0 1 4}
  EXPECT_EQ(analysis.largest_pattern_group, 3U);
  EXPECT_EQ(analysis.num_distinct_neurons, 5U);
  EXPECT_EQ(analysis.num_empty_outputs, 2U);
  EXPECT_EQ(analysis.num_unread_inputs, 1U);
  EXPECT_FALSE(analysis.is_iso);
  EXPECT_TRUE(analysis.keeps_zero);
}

TEST(Analysis, TellsNeuronsOfDifferentBiasApart) {
  auto layer = crafted_layer();
  layer.bias = {-1.0, -2.0, -1.0, -1.0, -1.0, -1.0, -1.0};
  auto analysis = analyse(layer);
  EXPECT_EQ(analysis.num_pattern_groups, 4U);
  EXPECT_EQ(analysis.num_distinct_neurons, 6U);
  layer.bias = {-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0};
  analysis = analyse(layer);
  EXPECT_EQ(analysis.num_distinct_neurons, 6U);
  EXPECT_FALSE(analysis.keeps_zero);
}

TEST(Analysis, OneBiasForAllEqualsOneEach) {
  auto layer = crafted_layer();
  layer.bias = {-0.5};
  auto const shared = analyse(layer);
  layer.bias.assign(7, -0.5);
  EXPECT_EQ(analyse(layer), shared);
}

TEST(Analysis, SeesEqualWeightsHoweverStored) {
  auto layer = layer_of(3, {{{0, 0.5}, {1, 0.5}}, {{2, 0.5}}, {{0, 0.5}, {1, 0.5}}});
  auto const one_each = analyse(layer);
  EXPECT_TRUE(one_each.is_iso);
  EXPECT_EQ(one_each.num_distinct_neurons, 2U);
  make_iso_if_equal(layer.weights);
  ASSERT_EQ(layer.weights.values.size(), 1U);
  EXPECT_EQ(analyse(layer), one_each);
}

TEST(Analysis, TellsListsApartThatStartAlike) {
  auto const analysis = analyse(layer_of(4, {{{0, 1.0}}, {{0, 1.0}, {1, 1.0}}, {{0, 1.0}, {1, 1.0}, {2, 1.0}}}));
  EXPECT_EQ(analysis.num_pattern_groups, 3U);
  EXPECT_EQ(analysis.largest_pattern_group, 1U);
  EXPECT_EQ(analysis.num_unread_inputs, 1U);
}

TEST(Analysis, CountsManyDifferentLists) {
  // Every pair of 60 inputs twice: equal hashes of different lists, if any, must not merge groups.
  std::vector<std::vector<Edge>> outputs;
  for (int copy = 0; copy < 2; ++copy) {
    for (NeuronIndex one = 0; one < 60; ++one) {
      for (NeuronIndex other = one + 1; other < 60; ++other) outputs.push_back({{one, 1.0}, {other, 1.0}});
    }
  }
  auto const analysis = analyse(layer_of(60, outputs));
  EXPECT_EQ(analysis.num_pattern_groups, 60U * 59U / 2U);
  EXPECT_EQ(analysis.num_distinct_neurons, 60U * 59U / 2U);
  EXPECT_EQ(analysis.largest_pattern_group, 2U);
}

TEST(EqualOutputs, AreFoundBitForBit) {
  auto layer =
      layer_of(3, {{{0, 1.0}, {1, 0.5}}, {{0, 1.0}, {2, 0.5}}, {{0, 1.0}, {1, 0.5}}, {{0, 1.0}, {1, 0.25}}, {}, {}});
  EXPECT_EQ(firsts_of_equals(layer), (std::vector<NeuronIndex>{0, 1, 0, 3, 4, 4}));
  layer.bias = {0.0, 0.0, -0.0, 0.0, 1.0, 1.0};
  EXPECT_EQ(firsts_of_equals(layer), (std::vector<NeuronIndex>{0, 1, 2, 3, 4, 4}));
  EXPECT_TRUE(firsts_of_equals(layer_of(3, {})).empty());
}

TEST(Analysis, SumsUpANetwork) {
  auto second = layer_of(7, {{{0, 1.0}, {6, 1.0}}, {{0, 1.0}, {6, 1.0}}});
  second.bias = {0.25};
  auto const analysis = analyse(Network({crafted_layer(), second}));
  ASSERT_EQ(analysis.layers.size(), 2U);
  EXPECT_EQ(analysis.layers[0], analyse(crafted_layer()));
  EXPECT_EQ(analysis.layers[1], analyse(second));
  EXPECT_EQ(analysis.num_edges, 15U);
  EXPECT_EQ(analysis.num_neurons, 9U);
  EXPECT_EQ(analysis.num_distinct_neurons, 6U);
  EXPECT_EQ(analysis.min_degree, 0U);
  EXPECT_EQ(analysis.max_degree, 3U);
  EXPECT_DOUBLE_EQ(analysis.mean_degree, 15.0 / 9.0);
  EXPECT_EQ(analysis.num_empty_outputs, 2U);
  EXPECT_EQ(analysis.num_unread_inputs, 1U + 5U);
  EXPECT_FALSE(analysis.keeps_zero);
}

TEST(Analysis, OneLayerThatRevivesDeadSamplesSuffices) {
  auto const keeps = layer_of(2, {{{0, 1.0}}, {{1, 1.0}}});
  auto revives = keeps;
  revives.bias = {0.0, 0.25};
  EXPECT_TRUE(analyse(Network({keeps, keeps, keeps})).keeps_zero);
  EXPECT_FALSE(analyse(Network({revives, keeps, keeps})).keeps_zero);
  EXPECT_FALSE(analyse(Network({keeps, revives, keeps})).keeps_zero);
  EXPECT_FALSE(analyse(Network({keeps, keeps, revives})).keeps_zero);
}

/// Two layers of which each is valid, but the second one does not take what the first one gives.
class MisfitSource final : public NetworkSource {
public:
  std::string name() const override { return "misfit"; }
  std::size_t num_layers() const override { return 2; }
  Layer layer(std::size_t) const override { return layer_of(3, {{{0, 1.0}}, {{2, 1.0}}}); }
};

TEST(Analysis, RefusesLayersThatDoNotFit) {
  try {
    analyse(MisfitSource());
    FAIL() << "no complaint";
  } catch (InputError const& error) {
    EXPECT_STREQ(error.what(), "layer 1 takes 3 inputs, but layer 0 has 2 outputs");
  }
}

} // namespace
} // namespace varve
