#include "passes/reduced_network.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "engine/draw.hpp"
#include "engine/random_case.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::RandomCases;

constexpr std::size_t kKeepAll = std::numeric_limits<std::size_t>::max();
constexpr NetworkPasses kAllPasses;
constexpr NetworkPasses kMergeOnly{true, false, false};
constexpr NetworkPasses kFoldOnly{false, true, false};
constexpr NetworkPasses kDropOnly{false, false, true};
constexpr NetworkPasses kNone{false, false, false};

struct Edge {
  NeuronIndex input;
  double weight;
};
using Rows = std::vector<std::vector<Edge>>;

Layer layer_of(std::size_t inputs, Rows const& outputs, std::vector<double> bias = {0.0},
               Activation activation = Activation::relu()) {
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
  layer.bias = std::move(bias);
  layer.activation = activation;
  make_iso_if_equal(layer.weights);
  require_valid(layer, 0);
  return layer;
}

/// Each output reads the input of its number; a different weight each, so that nothing is equal.
Layer distinct_layer(std::size_t neurons) {
  Rows rows(neurons);
  for (std::size_t neuron = 0; neuron < neurons; ++neuron) {
    rows[neuron] = {{static_cast<NeuronIndex>(neuron), 1.0 + 0.25 * static_cast<double>(neuron)}};
  }
  return layer_of(neurons, rows);
}

double one_bit_more(double value) { return std::nextafter(value, std::numeric_limits<double>::infinity()); }

std::uint64_t same_hash(ComparedOutput const&) { return 7; }

/// Samples of one number, each with a value of few bits in most neurons.
SampleSet samples_for(std::size_t neurons, std::uint64_t seed = 1, std::size_t count = 20) {
  constexpr std::array values = {1.0, 0.5, 2.0, 0.25, -0.5};
  RandomCases random(seed);
  SampleSet samples;
  samples.matrix.num_rows = count;
  samples.matrix.num_columns = neurons;
  for (std::size_t sample = 0; sample < count; ++sample) {
    for (std::size_t neuron = 0; neuron < neurons && sample > 0; ++neuron) {
      if (random.below(3) == 0) continue;
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
      samples.matrix.values.push_back(values.at(random.below(values.size())));
    }
    samples.matrix.row_pointers.push_back(samples.matrix.num_entries());
  }
  return samples;
}

std::vector<std::vector<double>> dense(SparseMatrix const& matrix) {
  std::vector<std::vector<double>> rows(matrix.num_rows, std::vector<double>(matrix.num_columns));
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      rows[row][matrix.column_indices[entry]] = matrix.value(entry);
    }
  }
  return rows;
}

/// The last activations of the reduced network, one for each output of the source: [samples][outputs].
std::vector<std::vector<double>> expanded(SparseMatrix const& activations, std::vector<NeuronIndex> const& map) {
  std::vector<std::vector<double>> rows;
  for (auto const& row : dense(activations)) {
    auto& wide = rows.emplace_back();
    for (auto const output : map) wide.push_back(row.at(output));
  }
  return rows;
}

/// That what the network gives is what the source gives; the tolerance is relative, or absolute below 1.
void expect_equal_results(ReducedNetwork const& reduced, NetworkSource const& source, SampleSet const& samples,
                          double tolerance = 0.0) {
  auto const expected = infer<double>(source, samples);
  auto const found = infer<double>(reduced, samples);
  EXPECT_EQ(categories(found), categories(expected));
  ASSERT_EQ(reduced.output_map().size(), expected.num_neurons());
  auto const expected_rows = dense(expected.matrix);
  auto const found_rows = expanded(found.matrix, reduced.output_map());
  if (tolerance == 0.0) {
    EXPECT_EQ(found_rows, expected_rows);
    return;
  }
  for (std::size_t sample = 0; sample < expected_rows.size(); ++sample) {
    for (std::size_t output = 0; output < expected_rows[sample].size(); ++output) {
      double const value = expected_rows[sample][output];
      ASSERT_NEAR(found_rows[sample][output], value, tolerance * std::max(1.0, std::abs(value)))
          << "sample " << sample << ", output " << output;
    }
  }
}

/// What must hold of every reduction, whatever was found.
void expect_consistent(ReducedNetwork const& reduced, NetworkSource const& source) {
  auto const before = load(source);
  auto const after = load(reduced); // valid, and its layers fit
  auto const& report = reduced.report();
  std::size_t neurons_before = 0;
  std::size_t neurons_after = 0;
  for (std::size_t number = 0; number < before.num_layers(); ++number) {
    neurons_before += before.layers()[number].num_outputs();
    neurons_after += after.layers()[number].num_outputs();
    EXPECT_LE(after.layers()[number].num_outputs(), before.layers()[number].num_outputs());
    EXPECT_EQ(after.layers()[number].num_outputs() == 0, before.layers()[number].num_outputs() == 0);
    EXPECT_EQ(after.layers()[number].activation, before.layers()[number].activation);
  }
  EXPECT_EQ(after.num_inputs(), before.num_inputs());
  EXPECT_EQ(report.neurons_before, neurons_before);
  EXPECT_EQ(report.neurons_after, neurons_after);
  EXPECT_EQ(report.edges_before, before.num_edges());
  EXPECT_EQ(report.edges_after, after.num_edges());
  EXPECT_EQ(neurons_before - neurons_after, report.merged_neurons + report.constant_neurons + report.unread_neurons);
  EXPECT_GT(report.read_seconds, 0.0);
  EXPECT_LT(report.read_seconds, report.seconds);
  if (!reduced.found_any()) {
    EXPECT_EQ(after.layers(), before.layers());
  }
  for (auto const output : reduced.output_map()) EXPECT_LT(output, after.num_outputs());
}

/// That neither what is kept nor the hash matters.
void expect_same_however_made(ReducedNetwork const& reduced, NetworkSource const& source, NetworkPasses passes) {
  auto const layers = load(reduced).layers();
  for (std::size_t const keep_bytes : {std::size_t{0}, std::size_t{2000}, kKeepAll}) {
    ReducedNetwork const other(source, passes, keep_bytes, kKeepAll, keep_bytes == 0 ? output_hash : same_hash);
    EXPECT_EQ(load(other).layers(), layers) << keep_bytes << " bytes";
    EXPECT_EQ(other.output_map(), reduced.output_map());
    EXPECT_EQ(other.report().neurons_after, reduced.report().neurons_after);
    EXPECT_EQ(other.report().edges_after, reduced.report().edges_after);
    EXPECT_EQ(other.report().merged_neurons, reduced.report().merged_neurons);
    EXPECT_EQ(other.report().constant_neurons, reduced.report().constant_neurons);
    EXPECT_EQ(other.report().unread_neurons, reduced.report().unread_neurons);
  }
}

/// A network, reduced, after all checks that every one has to pass. Its layers, for whoever wants to look closer.
struct Reduction {
  std::vector<Layer> layers;
  std::vector<NeuronIndex> output_map;
  ReductionReport report;
  bool found_any;
};

Reduction reduce(std::vector<Layer> source_layers, NetworkPasses passes = kAllPasses) {
  Network const source(std::move(source_layers));
  ReducedNetwork const reduced(source, passes, kKeepAll);
  expect_consistent(reduced, source);
  expect_same_however_made(reduced, source, passes);
  expect_equal_results(reduced, source, samples_for(source.num_inputs()));
  return {load(reduced).layers(), reduced.output_map(), reduced.report(), reduced.found_any()};
}

std::vector<std::size_t> widths_of(std::vector<Layer> const& layers) {
  std::vector<std::size_t> widths;
  for (auto const& layer : layers) widths.push_back(layer.num_outputs());
  return widths;
}

using Widths = std::vector<std::size_t>;
using Map = std::vector<NeuronIndex>;

// --- merge_neurons ---

TEST(MergeNeurons, AddsUpTheWeightsOfTheNextLayer) {
  auto const reduction = reduce({layer_of(3, {{{0, 1.0}, {2, 0.5}}, {{1, 1.0}}, {{0, 1.0}, {2, 0.5}}}),
                                 layer_of(3, {{{0, 0.25}, {1, 3.0}, {2, 0.5}}, {{0, 2.0}, {1, 1.0}}})},
                                kMergeOnly);
  EXPECT_EQ(reduction.layers[0], layer_of(3, {{{0, 1.0}, {2, 0.5}}, {{1, 1.0}}}));
  EXPECT_EQ(reduction.layers[1], layer_of(2, {{{0, 0.75}, {1, 3.0}}, {{0, 2.0}, {1, 1.0}}}));
  EXPECT_EQ(reduction.report.merged_neurons, 1U);
  EXPECT_EQ(reduction.report.edges_before, 10U);
  EXPECT_EQ(reduction.report.edges_after, 7U);
  EXPECT_EQ(reduction.output_map, (Map{0, 1}));
}

TEST(MergeNeurons, AddsUpInAscendingOrderOfTheInput) {
  Rows const equal(4, {{0, 1.0}});
  auto const source = Network({layer_of(1, equal), layer_of(4, {{{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 1e-17}}})});
  ReducedNetwork const reduced(source, kAllPasses, kKeepAll);
  EXPECT_EQ(reduced.layer(1), layer_of(1, {{{0, ((0.1 + 0.2) + 0.3) + 1e-17}}}));
}

TEST(MergeNeurons, LooksAtEveryBitOfWeightsAndBiases) {
  Rows const rows = {{{0, 0.5}, {1, 0.75}}, {{0, 0.5}, {1, one_bit_more(0.75)}}, {{0, 0.5}, {1, 0.75}}};
  auto const next = distinct_layer(3);
  EXPECT_EQ(reduce({layer_of(2, rows), next}).report.merged_neurons, 1U);
  EXPECT_EQ(reduce({layer_of(2, rows, {-0.25, -0.25, one_bit_more(-0.25)}), next}).report.merged_neurons, 0U);
  EXPECT_EQ(reduce({layer_of(2, rows, {-0.25, one_bit_more(-0.25), -0.25}), next}).report.merged_neurons, 1U);
}

TEST(MergeNeurons, TellsListsAndWeightsApart) {
  Rows const rows = {{{0, 0.5}, {1, 1.0}}, {{0, 0.5}, {2, 1.0}}, {{0, 1.0}, {1, 0.5}}, {{0, 0.5}}, {{1, 1.0}}};
  auto const reduction = reduce({layer_of(3, rows), distinct_layer(5)});
  EXPECT_FALSE(reduction.found_any);
}

TEST(MergeNeurons, CascadesThroughLayers) {
  // Outputs 0 and 1 of the second layer read different neurons, which are equal; and so on.
  auto const reduction =
      reduce({layer_of(2, {{{0, 1.0}}, {{0, 1.0}}, {{1, 1.0}}}),
              layer_of(3, {{{0, 0.5}, {2, 1.0}}, {{1, 0.5}, {2, 1.0}}, {{0, 0.25}, {1, 0.25}, {2, 1.0}}, {{0, 1.0}}}),
              layer_of(4, {{{0, 1.0}, {3, 1.0}}, {{1, 1.0}, {3, 1.0}}, {{2, 0.5}, {3, 2.0}}})},
             kMergeOnly);
  EXPECT_EQ(widths_of(reduction.layers), (Widths{2, 2, 2}));
  EXPECT_EQ(reduction.report.merged_neurons, 1U + 2U + 1U);
  EXPECT_EQ(reduction.output_map, (Map{0, 0, 1}));
}

TEST(MergeNeurons, BarelyDoesNotCascade) {
  auto const reduction = reduce({layer_of(2, {{{0, 1.0}}, {{0, one_bit_more(1.0)}}, {{1, 1.0}}}),
                                 layer_of(3, {{{0, 0.5}, {2, 1.0}}, {{1, 0.5}, {2, 1.0}}})});
  EXPECT_FALSE(reduction.found_any);
}

TEST(MergeNeurons, MapsEqualLastOutputsBack) {
  auto const reduction =
      reduce({layer_of(3, {{{0, 1.0}}, {{1, 1.0}}, {{0, 1.0}}, {{2, 1.0}}, {{1, 1.0}}, {{0, 1.0}}})});
  EXPECT_EQ(reduction.layers[0], layer_of(3, {{{0, 1.0}}, {{1, 1.0}}, {{2, 1.0}}}));
  EXPECT_EQ(reduction.output_map, (Map{0, 1, 0, 2, 1, 0}));
}

TEST(MergeNeurons, MergesEmptyNeuronsByTheirBias) {
  auto const reduction = reduce({layer_of(1, {{}, {}, {}, {{0, 1.0}}}, {1.0, 2.0, 1.0, 1.0})}, kMergeOnly);
  EXPECT_EQ(reduction.layers[0], layer_of(1, {{}, {}, {{0, 1.0}}}, {1.0, 2.0, 1.0}));
  EXPECT_EQ(reduction.output_map, (Map{0, 1, 0, 2}));
}

TEST(MergeNeurons, DropsEdgesThatAddUpToZero) {
  auto const first = layer_of(2, {{{0, 1.0}}, {{0, 1.0}}, {{1, 1.0}}});
  auto const second = layer_of(3, {{{0, 0.5}, {1, -0.5}, {2, 1.0}}, {{0, 0.5}, {1, 0.5}}});
  auto const reduction = reduce({first, second}, kMergeOnly);
  EXPECT_EQ(reduction.layers[1], layer_of(2, {{{1, 1.0}}, {{0, 1.0}}}));

  // With nothing else to read them, the merged neuron is unread, and its input with it.
  auto const all = reduce({distinct_layer(2), first, layer_of(3, {{{0, 0.5}, {1, -0.5}, {2, 1.0}}, {{2, 3.0}}})});
  EXPECT_EQ(widths_of(all.layers), (Widths{1, 1, 2}));
  EXPECT_EQ(all.report.unread_neurons, 2U);
}

TEST(MergeNeurons, KeepsWhatNearlyAddsUpToZero) {
  auto const first = layer_of(2, {{{0, 1.0}}, {{0, 1.0}}, {{1, 1.0}}});
  Network const source({first, layer_of(3, {{{0, 0.5}, {1, -one_bit_more(0.5)}, {2, 1.0}}})});
  ReducedNetwork const reduced(source, kAllPasses, kKeepAll);
  EXPECT_EQ(reduced.report().edges_after, 4U);
}

TEST(MergeNeurons, LeavesLastOutputsWhereTheyAreNotToBeMerged) {
  Network const source({layer_of(1, Rows(2, {{0, 1.0}})), layer_of(2, Rows(3, {{0, 0.5}, {1, 0.5}}))});
  ReducedNetwork const apart(source, {.merge_outputs = false}, kKeepAll);
  EXPECT_EQ(apart.layer(0).num_outputs(), 1U);
  EXPECT_EQ(apart.layer(1).num_outputs(), 3U);
  EXPECT_EQ(apart.output_map(), (Map{0, 1, 2}));
  ReducedNetwork const merged(source, kAllPasses, kKeepAll);
  EXPECT_EQ(merged.layer(1).num_outputs(), 1U);
  EXPECT_EQ(merged.output_map(), (Map{0, 0, 0}));
}

TEST(MergeNeurons, LeavesANetworkWhoseSumsAreTooLarge) {
  Rows const equal(2, {{0, 1.0}});
  double const large = 3e38;
  Network const source({layer_of(1, equal), layer_of(2, {{{0, large}, {1, large}}})});
  ReducedNetwork const reduced(source, kAllPasses, kKeepAll);
  EXPECT_FALSE(reduced.found_any());
  expect_consistent(reduced, source);
  EXPECT_EQ(reduced.output_map(), (Map{0}));
  Network const below({layer_of(1, equal), layer_of(2, {{{0, -large}, {1, -large}}})});
  EXPECT_FALSE(ReducedNetwork(below, kAllPasses, kKeepAll).found_any());

  Network const fits({layer_of(1, equal), layer_of(2, {{{0, large}, {1, large / 16}}})});
  EXPECT_EQ(ReducedNetwork(fits, kAllPasses, kKeepAll).report().merged_neurons, 1U);
}

// --- fold_constants ---

TEST(FoldConstants, TakesValuesIntoTheNextBiases) {
  auto const reduction = reduce({layer_of(1, {{{0, 1.0}}, {}, {}}, {0.0, 2.0, -1.0}),
                                 layer_of(3, {{{0, 1.0}, {1, 0.5}}, {{0, 2.0}, {2, 0.5}}, {{1, 3.0}}}, {0.25})},
                                kFoldOnly);
  EXPECT_EQ(reduction.layers[0], layer_of(1, {{{0, 1.0}}}));
  EXPECT_EQ(reduction.layers[1], layer_of(1, {{{0, 1.0}}, {{0, 2.0}}, {}}, {1.25, 0.25, 6.25}));
  EXPECT_EQ(reduction.report.constant_neurons, 2U);
  EXPECT_EQ(reduction.output_map, (Map{0, 1, 2}));
}

TEST(FoldConstants, KnowsTheActivations) {
  auto const bias_after = [](Activation activation, double bias) {
    auto const reduction =
        reduce({layer_of(1, {{{0, 1.0}}, {}}, {0.0, bias}, activation), layer_of(2, {{{0, 1.0}, {1, 0.5}}})});
    return reduction.layers[1].bias;
  };
  using Bias = std::vector<double>;
  EXPECT_EQ(bias_after(Activation::identity(), -3.0), Bias{-1.5});
  EXPECT_EQ(bias_after(Activation::identity(), 3.0), Bias{1.5});
  EXPECT_EQ(bias_after(Activation::relu(), -3.0), Bias{0.0});
  EXPECT_EQ(bias_after(Activation::relu(), 3.0), Bias{1.5});
  EXPECT_EQ(bias_after(Activation::clipped_relu(2.0), -3.0), Bias{0.0});
  EXPECT_EQ(bias_after(Activation::clipped_relu(2.0), 3.0), Bias{1.0});
  EXPECT_EQ(bias_after(Activation::clipped_relu(2.0), 1.0), Bias{0.5});
}

TEST(FoldConstants, GoesThroughSeveralLayers) {
  auto const layer = layer_of(2, {{{0, 1.0}}, {{1, 0.5}}}, {0.0, 1.0});
  auto const reduction = reduce(
      {layer_of(1, {{{0, 1.0}}, {}}, {0.0, 1.0}), layer, layer, layer, layer_of(2, {{{0, 1.0}}, {{0, 1.0}, {1, 1.0}}})},
      kFoldOnly);
  EXPECT_EQ(widths_of(reduction.layers), (Widths{1, 1, 1, 1, 2}));
  EXPECT_EQ(reduction.layers[4].bias, (std::vector<double>{0.0, 1.875}));
  EXPECT_EQ(reduction.report.constant_neurons, 4U);
}

TEST(FoldConstants, LeavesTheLastLayer) { EXPECT_FALSE(reduce({layer_of(1, {{{0, 1.0}}, {}}, {0.0, 2.0})}).found_any); }

TEST(FoldConstants, BarelyDoesNotApply) {
  double const least = std::numeric_limits<double>::denorm_min();
  auto const next = distinct_layer(2);
  EXPECT_FALSE(reduce({layer_of(2, {{{0, 1.0}}, {{1, least}}}), next}).found_any);
  EXPECT_EQ(reduce({layer_of(2, {{{0, 1.0}}, {{1, 0.0}}}), next}).report.constant_neurons, 1U);
  EXPECT_EQ(reduce({layer_of(2, {{{0, 1.0}}, {{1, -0.0}}}), next}).report.constant_neurons, 1U);
}

TEST(FoldConstants, MakesNeuronsEqual) {
  // Equal after their constants have been added: 0.5 + 0.25 * 2 = 1.
  auto const reduction =
      reduce({layer_of(1, {{{0, 1.0}}, {}}, {0.0, 2.0}), layer_of(2, {{{0, 1.0}, {1, 0.25}}, {{0, 1.0}}}, {0.5, 1.0})});
  EXPECT_EQ(reduction.output_map, (Map{0, 0}));
  EXPECT_EQ(reduction.layers[1], layer_of(1, {{{0, 1.0}}}, {1.0}));
}

TEST(FoldConstants, LeavesOneNeuronWhereAllAreConstant) {
  auto const reduction =
      reduce({distinct_layer(3), layer_of(3, {{}, {{1, 0.0}}, {}}, {1.0, 2.0, -1.0}),
              layer_of(3, {{{0, 1.0}, {1, 1.0}}, {{2, 1.0}}, {}}), layer_of(3, {{{0, 1.0}}, {{1, 2.0}}, {}})});
  EXPECT_EQ(widths_of(reduction.layers), (Widths{1, 1, 1, 2}));
  EXPECT_EQ(reduction.report.edges_after, 0U);
  EXPECT_EQ(reduction.layers[3], layer_of(1, {{}, {}}, {3.0, 0.0}));
  EXPECT_EQ(reduction.output_map, (Map{0, 1, 1}));
  EXPECT_EQ(reduction.report.unread_neurons, 2U);

  auto const without_drop = reduce({distinct_layer(3), layer_of(3, {{}, {}, {}}, {1.0}), distinct_layer(3)}, kFoldOnly);
  EXPECT_EQ(widths_of(without_drop.layers), (Widths{3, 1, 3}));
  EXPECT_EQ(without_drop.layers[2], layer_of(1, {{}, {}, {}}, {1.0, 1.25, 1.5}));
}

TEST(FoldConstants, FoldsEveryOneOfEqualNeurons) {
  // Outputs 0 and 2 of the second layer are equal from the start, and constant once the first layer is known.
  auto const reduction =
      reduce({layer_of(1, {{{0, 1.0}}, {}}, {0.0, 2.0}), layer_of(2, {{{1, 0.5}}, {{0, 1.0}}, {{1, 0.5}}, {{0, 1.0}}}),
              layer_of(4, {{{0, 1.0}, {1, 1.0}}, {{2, 2.0}, {3, 1.0}}})});
  EXPECT_EQ(widths_of(reduction.layers), (Widths{1, 1, 2}));
  EXPECT_EQ(reduction.layers[2].bias, (std::vector<double>{1.0, 2.0}));
  EXPECT_EQ(reduction.report.constant_neurons, 3U);
  EXPECT_EQ(reduction.report.merged_neurons, 1U);
}

TEST(FoldConstants, LeavesANetworkWhoseBiasWouldOverflow) {
  Network const source({layer_of(1, {{{0, 1.0}}, {}}, {0.0, 1e10}), layer_of(2, {{{0, 1.0}, {1, 1e300}}})});
  ReducedNetwork const reduced(source, kAllPasses, kKeepAll);
  EXPECT_FALSE(reduced.found_any());
  expect_consistent(reduced, source);
}

// --- drop_unread ---

TEST(DropUnread, DropsWhatNobodyReads) {
  auto const reduction =
      reduce({distinct_layer(3), layer_of(3, {{{0, 1.0}, {2, 0.5}}, {{0, 2.0}, {2, 1.0}}})}, kDropOnly);
  EXPECT_EQ(reduction.layers[0], layer_of(3, {{{0, 1.0}}, {{2, 1.5}}}));
  EXPECT_EQ(reduction.layers[1], layer_of(2, {{{0, 1.0}, {1, 0.5}}, {{0, 2.0}, {1, 1.0}}}));
  EXPECT_EQ(reduction.report.unread_neurons, 1U);
  EXPECT_EQ(reduction.report.edges_after, 6U);
}

TEST(DropUnread, BarelyDoesNotApply) {
  double const least = std::numeric_limits<double>::denorm_min();
  auto const second = [](double weight) { return layer_of(2, {{{0, 1.0}, {1, weight}}, {{0, 3.0}}}); };
  EXPECT_FALSE(reduce({distinct_layer(2), second(least)}, kDropOnly).found_any);
  EXPECT_EQ(reduce({distinct_layer(2), second(0.0)}, kDropOnly).report.unread_neurons, 1U);
}

TEST(DropUnread, MakesOthersUnread) {
  auto const last = layer_of(3, {{{0, 1.0}, {1, 1.0}}, {{1, 1.0}}});
  auto const reduction = reduce({distinct_layer(3), distinct_layer(3), distinct_layer(3), last}, kDropOnly);
  EXPECT_EQ(widths_of(reduction.layers), (Widths{2, 2, 2, 2}));
  EXPECT_EQ(reduction.report.unread_neurons, 3U);

  // Read by a kept neuron as well: stays, and so does what that one reads.
  auto const crossed = layer_of(3, {{{0, 1.0}, {2, 1.0}}, {{1, 2.0}}, {{2, 3.0}}});
  EXPECT_EQ(widths_of(reduce({distinct_layer(3), crossed, distinct_layer(3), last}, kDropOnly).layers),
            (Widths{3, 2, 2, 2}));
}

TEST(DropUnread, SkipsStretchesWithNothingToDo) {
  auto const drops = layer_of(3, {{{0, 1.0}}, {{1, 2.0}}, {{0, 0.5}, {1, 0.5}}});
  auto const reads_all = layer_of(3, {{{0, 1.0}, {1, 0.5}, {2, 0.25}}, {{0, 3.0}, {1, 0.5}, {2, 0.25}}, {{2, 1.0}}});
  auto const reduction = reduce({distinct_layer(3), drops, reads_all, reads_all, drops});
  EXPECT_EQ(widths_of(reduction.layers), (Widths{2, 3, 3, 2, 3}));
}

TEST(DropUnread, KeepsTheInputsAndTheLastLayer) {
  auto const reduction = reduce({layer_of(4, {{{3, 1.0}}, {}})}, kDropOnly);
  EXPECT_FALSE(reduction.found_any);
  EXPECT_EQ(reduction.layers[0].num_inputs(), 4U);
}

TEST(DropUnread, LeavesOneNeuronWhereAllAreUnread) {
  auto const reduction = reduce({distinct_layer(3), distinct_layer(3), layer_of(3, {{}, {}}, {1.0, 2.0})}, kDropOnly);
  EXPECT_EQ(widths_of(reduction.layers), (Widths{1, 1, 2}));
  EXPECT_EQ(reduction.report.edges_after, 0U);
  EXPECT_EQ(reduction.report.unread_neurons, 4U);
}

TEST(DropUnread, LeavesTheBiasesOfTheRest) {
  auto const reduction = reduce(
      {layer_of(3, {{{0, 1.0}}, {{1, 1.0}}, {{2, 1.0}}}, {0.5, 0.25, 0.5}), layer_of(3, {{{0, 1.0}, {2, 2.0}}})});
  EXPECT_EQ(reduction.layers[0], layer_of(3, {{{0, 1.0}}, {{2, 1.0}}}, {0.5}));
}

// --- all together ---

TEST(ReducedNetwork, IsTheSourceIfThereIsNothingToFind) {
  auto layer = distinct_layer(4);
  layer.bias.assign(4, 0.5); // not canonical, and it must come back like that
  Network const source({layer, distinct_layer(4), layer}, "nothing to find");
  for (std::size_t const keep_bytes : {std::size_t{0}, kKeepAll}) {
    ReducedNetwork const reduced(source, kAllPasses, keep_bytes);
    EXPECT_FALSE(reduced.found_any());
    EXPECT_EQ(load(reduced).layers(), source.layers());
    EXPECT_EQ(reduced.name(), "nothing to find");
    EXPECT_EQ(reduced.output_map(), (Map{0, 1, 2, 3}));
    EXPECT_EQ(reduced.report().neurons_after, 12U);
    EXPECT_EQ(reduced.report().edges_after, 12U);
  }
}

TEST(ReducedNetwork, LooksForNothingUnlessAsked) {
  std::vector<Layer> const layers = {layer_of(2, {{{0, 1.0}}, {{0, 1.0}}, {}, {{1, 0.0}}}),
                                     layer_of(4, {{{0, 1.0}, {1, 0.0}}, {{0, 1.0}}})};
  EXPECT_FALSE(reduce(layers, kNone).found_any);
  EXPECT_TRUE(reduce(layers).found_any);
  EXPECT_EQ(reduce(layers, kMergeOnly).report.constant_neurons, 0U);
  EXPECT_EQ(reduce(layers, kMergeOnly).report.unread_neurons, 0U);
  EXPECT_EQ(reduce(layers, kFoldOnly).report.merged_neurons, 0U);
  EXPECT_EQ(reduce(layers, kFoldOnly).report.unread_neurons, 0U);
  EXPECT_EQ(reduce(layers, kDropOnly).report.merged_neurons, 0U);
  EXPECT_EQ(reduce(layers, kDropOnly).report.constant_neurons, 0U);
}

TEST(ReducedNetwork, DropsEdgesOfWeightZero) {
  auto const reduction = reduce({layer_of(2, {{{0, 1.0}, {1, 0.0}}, {{0, -0.0}, {1, 1.0}}})});
  EXPECT_TRUE(reduction.found_any);
  EXPECT_EQ(reduction.layers[0], layer_of(2, {{{0, 1.0}}, {{1, 1.0}}}));
}

TEST(ReducedNetwork, TakesIdentityActivations) {
  auto const identity = Activation::identity();
  auto const reduction =
      reduce({layer_of(2, {{{0, -1.0}}, {{1, 1.0}}, {{0, -1.0}}, {}}, {0.5, 0.5, 0.5, -2.0}, identity),
              layer_of(4, {{{0, 1.0}, {2, 1.0}, {3, 0.5}}, {{1, -1.0}}, {{0, 2.0}, {3, 0.5}}}, {0.0}, identity)});
  EXPECT_EQ(widths_of(reduction.layers), (Widths{2, 2}));
  EXPECT_EQ(reduction.layers[1].bias, (std::vector<double>{-1.0, 0.0}));
  EXPECT_EQ(reduction.output_map, (Map{0, 1, 0}));
}

TEST(ReducedNetwork, IsCanonicalEvenWhereNothingWent) {
  auto no_edges = layer_of(2, {{}, {}}, {1.0, 2.0});
  no_edges.weights.values = {0.5};
  auto no_bias_differs = distinct_layer(2);
  no_bias_differs.bias = {0.5, 0.5};
  auto const merges = layer_of(2, {{{0, 1.0}}, {{0, 1.0}}, {{1, 1.0}}});
  auto const reduction = reduce({no_bias_differs, no_edges, merges}, kMergeOnly);
  EXPECT_EQ(reduction.layers[0].bias, std::vector<double>{0.5});
  EXPECT_TRUE(reduction.layers[1].weights.values.empty());
  EXPECT_EQ(reduction.output_map, (Map{0, 0, 1}));
}

TEST(ReducedNetwork, TakesLayersWithoutNeurons) {
  EXPECT_FALSE(reduce({layer_of(3, {})}).found_any);
  EXPECT_FALSE(reduce({layer_of(0, {})}).found_any);
  EXPECT_FALSE(reduce({layer_of(0, {{}, {}}, {1.0, 2.0})}).found_any);
  EXPECT_EQ(widths_of(reduce({distinct_layer(3), layer_of(3, {})}).layers), (Widths{1, 0}));
  EXPECT_EQ(widths_of(reduce({layer_of(3, {}), layer_of(0, {{}, {}})}).layers), (Widths{0, 1}));
  EXPECT_EQ(widths_of(reduce({distinct_layer(2), layer_of(2, {}), layer_of(0, {{}, {}}, {1.0}),
                              layer_of(2, {{{0, 1.0}}, {{1, 2.0}}})})
                          .layers),
            (Widths{1, 0, 1, 2}));
}

/// A source that counts how often each layer was asked for.
class CountingSource final : public NetworkSource {
public:
  explicit CountingSource(NetworkSource const& source) : source_(source), counts_(source.num_layers()) {}

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override {
    ++counts_[number];
    return source_.layer(number);
  }
  std::vector<int> counts() const { return {counts_.begin(), counts_.end()}; }

private:
  NetworkSource const& source_;
  mutable std::vector<std::atomic<int>> counts_;
};

TEST(ReducedNetwork, ReadsEachLayerOnceAndKeepsWhatFits) {
  RadixNet const network(256, 6, 1);
  CountingSource const source(network);
  ReducedNetwork const reduced(source, kAllPasses, kKeepAll);
  load(reduced);
  EXPECT_EQ(source.counts(), std::vector<int>(6, 1));

  ReducedNetwork const nothing_kept(source, kAllPasses, 0);
  EXPECT_EQ(source.counts(), std::vector<int>(6, 2));
  load(nothing_kept);
  EXPECT_EQ(source.counts(), std::vector<int>(6, 3));

  // Room for the first layer only: 16 neurons of 32 equal weights.
  CountingSource const other(network);
  ReducedNetwork const one_kept(other, kAllPasses, 16 * (32 * 4 + 8) + 8 + 8 + 8);
  EXPECT_EQ(one_kept.layer(0), reduced.layer(0));
  EXPECT_EQ(one_kept.layer(1), reduced.layer(1));
  EXPECT_EQ(other.counts(), (std::vector<int>{1, 2, 1, 1, 1, 1}));
}

TEST(ReducedNetwork, RewritesLayersFromSeveralThreads) {
  RadixNet const source(512, 7, 3);
  ReducedNetwork const kept(source, kAllPasses, kKeepAll);
  ReducedNetwork const rewritten(source, kAllPasses, 0);
  std::vector<Layer> const expected = load(kept).layers();
  for_each_on_host_threads(70, [&](std::size_t call) {
    EXPECT_EQ(kept.layer(call % 7), expected[call % 7]);
    EXPECT_EQ(rewritten.layer(call % 7), expected[call % 7]);
  });
}

/// Two layers of which each is valid, but the second one does not take what the first one gives.
class MisfitSource final : public NetworkSource {
public:
  std::string name() const override { return "misfit"; }
  std::size_t num_layers() const override { return 2; }
  Layer layer(std::size_t) const override { return layer_of(3, {{{0, 1.0}}, {{2, 1.0}}}); }
};

TEST(ReducedNetwork, RefusesLayersThatDoNotFit) {
  for (auto const passes : {kAllPasses, kNone}) {
    try {
      ReducedNetwork const reduced(MisfitSource(), passes, kKeepAll);
      FAIL() << "no complaint";
    } catch (InputError const& error) {
      EXPECT_STREQ(error.what(), "layer 1 takes 3 inputs, but layer 0 has 2 outputs");
    }
  }
}

// --- many networks ---

/// The 16 neurons of a node are equal; and so are, after an offset of half of all nodes, the two nodes of each pair.
std::size_t num_distinct_in_radixnet(std::size_t neurons, std::size_t number) {
  std::size_t const nodes = neurons / 16;
  std::size_t const offset = std::size_t{1} << (number % static_cast<std::size_t>(std::countr_zero(nodes)));
  return 2 * offset == nodes ? nodes / 2 : nodes;
}

TEST(RadixNets, AreSixteenTimesSmaller) {
  for (std::size_t const neurons : {64U, 128U, 256U, 512U, 1024U}) {
    // Weights 1/16 and a bias of few bits: 10 layers without any rounding.
    RadixNet const source(neurons, 10, 5, -0.125);
    ReducedNetwork const reduced(source, kAllPasses, kKeepAll);
    for (std::size_t number = 0; number < reduced.num_layers(); ++number) {
      std::size_t const expected = num_distinct_in_radixnet(neurons, number);
      std::size_t const found = reduced.layer(number).num_outputs();
      if (neurons >= 256) {
        EXPECT_EQ(found, expected) << neurons << " neurons, layer " << number;
      }
      EXPECT_LE(found, expected) << neurons << " neurons, layer " << number;
    }
    expect_consistent(reduced, source);
    expect_same_however_made(reduced, source, kAllPasses);
    auto const samples = digit_images(neurons, 60, 2);
    expect_equal_results(reduced, source, samples);
    EXPECT_FALSE(categories(infer<double>(source, samples)).empty());
  }
}

TEST(RadixNets, OfOtherBiasesDifferByRounding) {
  for (std::size_t const neurons : {64U, 256U, 1024U}) {
    // The challenge's bias, until all that live are saturated; and a smaller one, while activations are of all sizes.
    for (auto const& source : {RadixNet(neurons, 24, 7), RadixNet(neurons, 10, 7, -0.1)}) {
      ReducedNetwork const reduced(source, kAllPasses, kKeepAll);
      auto const samples = digit_images(neurons, 200, 3);
      expect_equal_results(reduced, source, samples, 1e-12);
      EXPECT_FALSE(categories(infer<double>(source, samples)).empty());
    }
  }
}

TEST(RandomNetworks, GiveEqualResults) {
  std::size_t num_found = 0;
  test::Draw draw;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    if (!draw.next()) continue;
    SCOPED_TRACE(seed);
    auto const random = test::random_case(seed);
    ReducedNetwork const reduced(random.network, kAllPasses, kKeepAll);
    expect_consistent(reduced, random.network);
    expect_same_however_made(reduced, random.network, kAllPasses);
    expect_equal_results(reduced, random.network, random.samples, 1e-9);
    if (reduced.found_any()) ++num_found;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_found, test::Draw::count(50));
}

/// A layer with few choices of everything, so that all passes find something. All numbers have few bits.
Layer few_choices_layer(RandomCases& random, std::size_t outputs, std::size_t inputs) {
  constexpr std::array weights = {0.5, 0.5, 0.5, 0.25, -0.5, 0.0};
  constexpr std::array biases = {0.0, 0.0, -0.25, 0.5};
  std::size_t const most = 1 + random.below(4);
  std::size_t const near = 1 + random.below(inputs); // inputs beyond are rarely read
  Rows rows(outputs);
  for (auto& row : rows) {
    std::vector<NeuronIndex> columns;
    for (std::size_t edge = random.below(most + 1); edge > 0; --edge) {
      columns.push_back(static_cast<NeuronIndex>(random.below(random.below(8) == 0 ? inputs : near)));
    }
    std::ranges::sort(columns);
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (auto const column : columns) row.push_back({column, weights.at(random.below(weights.size()))});
  }
  std::vector<double> bias(random.below(2) == 0 ? 1 : outputs);
  for (auto& value : bias) value = biases.at(random.below(biases.size()));
  std::array const activations = {Activation::relu(), Activation::identity(), Activation::clipped_relu(1.5)};
  return layer_of(inputs, rows, bias, activations.at(random.below(activations.size())));
}

Network few_choices_network(RandomCases& random) {
  std::vector<Layer> layers(1 + random.below(8));
  std::size_t width = 1 + random.below(30);
  for (auto& layer : layers) {
    std::size_t const outputs = 1 + random.below(random.below(4) == 0 ? 4 : 40);
    layer = few_choices_layer(random, outputs, width);
    width = outputs;
  }
  return Network(std::move(layers));
}

TEST(RandomNetworks, OfFewChoicesGiveTheSameBits) {
  ReductionReport total;
  test::Draw draw;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    if (!draw.next()) continue;
    SCOPED_TRACE(seed);
    RandomCases random(seed);
    auto const source = few_choices_network(random);
    NetworkPasses const passes{random.below(4) != 0, random.below(4) != 0, random.below(4) != 0};
    ReducedNetwork const reduced(source, passes, kKeepAll);
    expect_consistent(reduced, source);
    expect_same_however_made(reduced, source, passes);
    expect_equal_results(reduced, source, samples_for(source.num_inputs(), seed));
    total.merged_neurons += reduced.report().merged_neurons;
    total.constant_neurons += reduced.report().constant_neurons;
    total.unread_neurons += reduced.report().unread_neurons;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(total.merged_neurons, test::Draw::count(1000));
  EXPECT_GT(total.constant_neurons, test::Draw::count(1000));
  EXPECT_GT(total.unread_neurons, test::Draw::count(1000));
}

TEST(RandomNetworks, HaveNothingLeftToFind) {
  // Whatever the passes leave is found by none of them, except for a neuron that stands in for a whole layer.
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomCases random(seed);
    auto const source = few_choices_network(random);
    ReducedNetwork const once(source, kAllPasses, kKeepAll);
    EXPECT_FALSE(ReducedNetwork(once, kAllPasses, kKeepAll).found_any());
  }
}

} // namespace
} // namespace varve
