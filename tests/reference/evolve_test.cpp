#include "reference/train.hpp"
#include "reference/training_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace varve {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// One layer of 2 outputs and 3 inputs, edges at places 0 (weight 4), 2 (0.5), 3 (-0.25) and 4 (3); one sample with
/// inputs 1, 10, 5 and targets far above the outputs 6.5 + bias 0 and 29.75.
struct HandMade {
  Network network{{Layer{{2, 3, {0, 2, 4}, {0, 2, 0, 1}, {4.0, 0.5, -0.25, 3.0}}, {0.0, 0.0}, Activation::identity()}}};
  SampleSet samples{{1, 3, {0, 3}, {0, 1, 2}, {1.0, 10.0, 5.0}}, 0};
  Answers answers{{}, {1, 2, {0, 2}, {0, 1}, {100.0, 100.0}}};

  /// The layer after a change that follows one step, whose rate is so small that weights stay where they are in float.
  TrainedLayer<float> evolved(PatternEvent const& event, PatternCount const& expected) const {
    ReferenceTraining<float> training(network, Loss::mean_square, {OptimizerKind::momentum});
    training.step(samples, answers, 1e-30);
    EXPECT_EQ(training.evolve(samples, answers, event), expected);
    moments = training.moments()[0].weights[0];
    return training.layers()[0];
  }
  mutable std::vector<float> moments;
};

TEST(EvolvedReference, GrowsWhereGradientsAreLargest) {
  HandMade const given;
  // gradients at a place: input * error; errors -93.5 and -70.25, so 0: 93.5, 1: 935, 2: 467.5, 3: 70, 4: 702, 5: 351
  auto const layer = given.evolved({PatternKind::rigl, 0.25}, {1, 0});
  EXPECT_THAT(layer.pattern.row_pointers, ElementsAre(0, 3, 4));
  EXPECT_THAT(layer.pattern.column_indices, ElementsAre(0, 1, 2, 1)) << "place 3 went, place 1 came";
  EXPECT_THAT(layer.weights, ElementsAre(4.0F, 0.0F, 0.5F, 3.0F));
  EXPECT_THAT(given.moments, ElementsAre(-93.5F, 0.0F, -467.5F, -702.5F));
  auto const more = given.evolved({PatternKind::rigl, 0.5}, {2, 1});
  EXPECT_THAT(more.pattern.column_indices, ElementsAre(0, 1, 2, 1)) << "place 2 went and came back";
  EXPECT_THAT(more.weights, ElementsAre(4.0F, 0.0F, 0.0F, 3.0F));
  EXPECT_THAT(given.moments, ElementsAre(-93.5F, 0.0F, 0.0F, -702.5F));
}

TEST(EvolvedReference, LeavesFullLayersAndLayersWithoutEdgesAlone) {
  HandMade given;
  auto layers = given.network.layers();
  layers[0].weights = {2, 3, {0, 3, 6}, {0, 1, 2, 0, 1, 2}, {1, 2, 3, 4, 5, 6}};
  given.network = Network(layers);
  for (auto const kind : {PatternKind::set, PatternKind::rigl})
    EXPECT_EQ(given.evolved({kind, 1.0}, {}).pattern.row_pointers, layers[0].weights.row_pointers);
  layers[0].weights = {2, 3, {0, 0, 0}, {}, {}};
  given.network = Network(layers);
  for (auto const kind : {PatternKind::set, PatternKind::rigl})
    EXPECT_THAT(given.evolved({kind, 1.0}, {}).pattern.row_pointers, Each(0U));
}

TEST(EvolvedReference, DrawsOtherPlacesForOtherEventsAndKeepsNumbersOfEdges) {
  auto const given = test::training_case({{20, 30, 8}, 40, 0.3, {Activation::relu()}});
  std::vector<std::vector<NeuronIndex>> found;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    ReferenceTraining<double> training(given.network, Loss::cross_entropy, {OptimizerKind::adam});
    EXPECT_GT(training.evolve(given.samples, given.labels, {PatternKind::set, 0.5, 4, number}).dropped, 90U);
    found.push_back(training.layers()[0].pattern.column_indices);
    EXPECT_EQ(found.back().size(), given.network.layers()[0].num_edges());
    EXPECT_NO_THROW(to_network(training.layers()));
    EXPECT_EQ(training.moments()[0].weights[1].size(), found.back().size());
    EXPECT_GE(std::ranges::count(training.layers()[0].weights, 0.0), 60);
  }
  EXPECT_NE(found[0], found[1]);
  EXPECT_NE(found[1], found[2]);
}

} // namespace
} // namespace varve
