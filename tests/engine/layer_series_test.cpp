#include "engine/trained_layers.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t width = 10;
constexpr std::size_t edges = 40;
constexpr std::size_t max_sums = 5 * (edges + width); // five layers
constexpr std::size_t launch_edges = 30;

/// So many layers that suit a series, whose sums lie side by side.
std::vector<TrainedShape> equal_layers(std::size_t count) {
  std::vector<TrainedShape> layers;
  for (std::size_t number = 0; number < count; ++number)
    layers.push_back({width, width, edges, number * edges, number * width});
  return layers;
}

SeriesRule rule(std::vector<TrainedShape> layers, std::size_t processors = 1) {
  return {std::move(layers), max_sums, launch_edges, processors};
}

TEST(LayerSeries, HaveAsManyLayersAsTheirSumsAllow) {
  auto const of = rule(equal_layers(12));
  EXPECT_EQ(of.forward_end(0, 12, 3), 5U);
  EXPECT_EQ(of.forward_end(5, 12, 3), 10U);
  EXPECT_EQ(of.forward_end(10, 12, 3), 12U);
  EXPECT_EQ(of.forward_end(11, 12, 3), 11U) << "one layer is no series";
  EXPECT_EQ(of.forward_end(2, 4, 3), 4U) << "no further than asked for";
  EXPECT_EQ(of.backward_begin(1, 11, 3), 7U);
  EXPECT_EQ(of.backward_begin(1, 3, 3), 1U) << "no further than asked for";
  EXPECT_EQ(of.backward_begin(1, 1, 3), 2U) << "one layer is no series";
  EXPECT_EQ(of.num_layers_in_series(3), 12U);
  EXPECT_EQ(rule(equal_layers(11)).num_layers_in_series(3), 10U);
  EXPECT_EQ(of.max_sums(), max_sums);
}

TEST(LayerSeries, EndWhereALayerHasAnotherShapeOrFormat) {
  auto const ends_before_third = [](auto const& change) {
    auto layers = equal_layers(5);
    change(layers[2]);
    auto const of = rule(layers);
    EXPECT_EQ(of.forward_end(0, 5, 1), 2U);
    EXPECT_EQ(of.forward_end(2, 5, 1), 2U);
    EXPECT_EQ(of.backward_begin(0, 4, 1), 3U);
    EXPECT_EQ(of.backward_begin(0, 2, 1), 3U);
  };
  ends_before_third([](TrainedShape& layer) { layer.num_inputs = width + 1; });
  ends_before_third([](TrainedShape& layer) { layer.num_outputs = width - 1; });
  ends_before_third([](TrainedShape& layer) { layer.num_inputs = layer.num_outputs = width + 1; });
  ends_before_third([](TrainedShape& layer) { layer.num_edges = max_sums / 2; }); // with its biases more than half
  ends_before_third(
      [](TrainedShape& layer) { layer.format.has_dense_forward = layer.format.has_dense_backward = true; });

  auto layers = equal_layers(5);
  layers[2].format.has_dense_forward = true;
  EXPECT_EQ(rule(layers).backward_begin(0, 4, 1), 0U) << "only the forward pass is dense";
  layers[2].format.has_dense_forward = false;
  layers[2].format.has_dense_backward = true;
  EXPECT_EQ(rule(layers).forward_end(0, 5, 1), 5U) << "only the backward pass is dense";
}

TEST(LayerSeries, HaveTheSumsOfTheirGradientsSideBySide) {
  auto layers = equal_layers(5);
  for (std::size_t number = 3; number < 5; ++number) layers[number].first_weight_sum += 1;
  EXPECT_EQ(rule(layers).backward_begin(0, 4, 1), 3U);
  EXPECT_EQ(rule(layers).backward_begin(0, 2, 1), 0U);
  EXPECT_EQ(rule(layers).forward_end(0, 5, 1), 5U);
  layers = equal_layers(5);
  for (std::size_t number = 3; number < 5; ++number) layers[number].first_bias_sum += 1;
  EXPECT_EQ(rule(layers).backward_begin(0, 4, 1), 3U);
}

TEST(LayerSeries, AreNotTakenIfIdleThreadsCostMoreThanLaunches) {
  auto const layers = equal_layers(4);
  EXPECT_EQ(rule(layers, 4).forward_end(0, 4, 4), 4U);
  EXPECT_EQ(rule(layers, 4).forward_end(0, 4, 1), 4U) << "40 edges by 3 of 4 idle threads are 30, a launch";
  EXPECT_EQ(rule(layers, 5).forward_end(0, 4, 1), 0U);
  EXPECT_EQ(rule(layers, 5).backward_begin(0, 3, 1), 4U);
  EXPECT_EQ(rule(layers, 5).forward_end(0, 4, 6), 0U);
  EXPECT_EQ(rule(layers, 5).forward_end(0, 4, 7), 4U);
  EXPECT_EQ(rule(layers, 5).max_sums(), max_sums) << "with as many leaves as threads there are series";
}

TEST(LayerSeries, DoNotExistWithoutRoomForSums) {
  SeriesRule const of(equal_layers(4), 0, launch_edges, 1);
  EXPECT_EQ(of.forward_end(0, 4, 1), 0U);
  EXPECT_EQ(of.backward_begin(0, 3, 1), 4U);
  EXPECT_EQ(of.max_sums(), 0U);
  EXPECT_EQ(of.num_layers_in_series(1), 0U);
  EXPECT_EQ(rule(equal_layers(1)).max_sums(), 0U);
}

} // namespace
} // namespace varve
