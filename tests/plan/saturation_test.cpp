#include "plan/cuts.hpp"

#include "engine/hand_made.hpp"
#include "engine/random_case.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

namespace varve {
namespace {

using test::diagonal_layer;

template <class Scalar>
class KeptCap : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(KeptCap, Scalars);

template <class Scalar>
double next_below(double value) {
  return static_cast<double>(std::nextafter(static_cast<Scalar>(value), Scalar{0}));
}

TYPED_TEST(KeptCap, IsTheCapOfALayerThatKeepsIt) {
  auto const clipped = Activation::clipped_relu(2.0);
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 1.0, {0.0}, clipped)), 2.0) << "just so";
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 2.0, {-2.0}, clipped)), 2.0) << "just so";
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 2.0, {-1.0}, clipped)), 2.0) << "with room";
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 0.0, {2.0}, clipped)), 2.0) << "by its bias alone";
}

TYPED_TEST(KeptCap, BarelyIsNotKept) {
  auto const clipped = Activation::clipped_relu(2.0);
  double const less = next_below<TypeParam>(1.0);
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, less, {0.0}, clipped)), 0.0) << "by one bit of the weight";
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 2.0, {-2.0 - 4.0 * (1.0 - less)}, clipped)), 0.0) << "of the bias";
  for (std::size_t const output : {0U, 1U, 2U}) { // each counts
    std::vector<double> bias(3, 0.0);
    bias[output] = -0.5;
    EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 1.0, bias, clipped)), 0.0);
    Layer layer = diagonal_layer(3, 1.0, {0.0}, clipped);
    layer.weights.values = {1.0, 1.0, 1.0};
    layer.weights.values[output] = less;
    EXPECT_EQ(kept_cap<TypeParam>(layer), 0.0);
  }
}

TYPED_TEST(KeptCap, NeedsACapAndNeurons) {
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 1.0, {0.0}, Activation::relu())), 0.0);
  EXPECT_EQ(kept_cap<TypeParam>(diagonal_layer(3, 1.0, {0.0}, Activation::identity())), 0.0);
  Layer with_stray_cap = diagonal_layer(3, 1.0, {0.0}, Activation::relu());
  with_stray_cap.activation.cap = 2.0; // ignored, because the activation does not clip
  EXPECT_EQ(kept_cap<TypeParam>(with_stray_cap), 0.0);
  Layer no_outputs = diagonal_layer(0, 1.0, {0.0}, Activation::clipped_relu(2.0));
  no_outputs.weights.num_columns = 3;
  EXPECT_EQ(kept_cap<TypeParam>(no_outputs), 0.0);
  Layer no_inputs = diagonal_layer(0, 1.0, {5.0}, Activation::clipped_relu(2.0));
  no_inputs.weights.num_rows = 2;
  no_inputs.weights.row_pointers = {0, 0, 0};
  EXPECT_EQ(kept_cap<TypeParam>(no_inputs), 0.0);
}

TYPED_TEST(KeptCap, IsSoughtAsTheLayerLoopComputes) {
  // Whatever the rounding: the loops give a saturated sample the cap everywhere if and only if the layer keeps it.
  int num_kept = 0;
  int num_not_kept = 0;
  for (std::uint64_t seed = 0; seed < 900; seed += 3) {
    auto const random = test::random_case(seed);
    for (Layer const& layer : random.network.layers()) {
      if (layer.activation.kind != ActivationKind::clipped_relu) continue;
      double const cap = layer.activation.cap;
      SampleSet full;
      full.matrix.num_rows = 1;
      full.matrix.num_columns = layer.num_inputs();
      for (std::size_t input = 0; input < layer.num_inputs(); ++input)
        full.matrix.column_indices.push_back(static_cast<NeuronIndex>(input));
      full.matrix.values.assign(layer.num_inputs(), cap);
      full.matrix.row_pointers = {0, layer.num_inputs()};
      auto const last = infer<TypeParam>(Network({layer}), full).matrix;
      auto const rounded_cap = static_cast<double>(static_cast<TypeParam>(cap));
      bool const keeps = static_cast<std::size_t>(std::ranges::count(last.values, rounded_cap)) == layer.num_outputs();
      ASSERT_EQ(kept_cap<TypeParam>(layer), keeps ? cap : 0.0) << "seed " << seed;
      ++(keeps ? num_kept : num_not_kept);
    }
  }
  EXPECT_GT(num_kept, 100);
  EXPECT_GT(num_not_kept, 100);
}

using Caps = std::vector<PlannedLayer>;

PlannedLayer layer_with(double cap, double kept) { return {.choice = {}, .cap = cap, .kept_cap = kept, .strips = {}}; }

TEST(FindSaturation, GoesBackAsFarAsLayersKeepOneCap) {
  PlannedLayer const keeps = layer_with(2.0, 2.0);
  PlannedLayer const has = layer_with(2.0, 0.0); // the cap, but does not keep it
  PlannedLayer const none = layer_with(0.0, 0.0);
  EXPECT_EQ(find_saturation({keeps, keeps, keeps, keeps}), 1U);
  EXPECT_EQ(find_saturation({has, keeps, keeps, keeps}), 1U) << "the first one makes saturated samples";
  EXPECT_EQ(find_saturation({none, keeps, keeps, keeps}), 2U) << "the second one does";
  EXPECT_EQ(find_saturation({keeps, has, keeps, keeps}), 2U);
  EXPECT_EQ(find_saturation({keeps, none, keeps, keeps}), 3U);
  EXPECT_EQ(find_saturation({keeps, keeps, has, keeps}), 3U);
  EXPECT_EQ(find_saturation({keeps, keeps, none, keeps}), 4U) << "nothing is left to skip";
}

TEST(FindSaturation, FindsNothingWhereTheLastLayerDoesNotKeepItsCap) {
  PlannedLayer const keeps = layer_with(2.0, 2.0);
  EXPECT_EQ(find_saturation({keeps, keeps, layer_with(2.0, 0.0)}), 3U);
  EXPECT_EQ(find_saturation({keeps, keeps, layer_with(0.0, 0.0)}), 3U);
  EXPECT_EQ(find_saturation({layer_with(0.0, 0.0), layer_with(0.0, 0.0), layer_with(0.0, 0.0)}), 3U)
      << "no cap is not the same cap";
  EXPECT_EQ(find_saturation({keeps}), 1U);
  EXPECT_EQ(find_saturation({}), 0U);
}

TEST(FindSaturation, TellsCapsApart) {
  // Layers of cap 2 that map ones to zeros, though each keeps its own cap; then layers of cap 1.
  Caps caps(20, layer_with(2.0, 2.0));
  caps.insert(caps.end(), 20, layer_with(1.0, 1.0));
  EXPECT_EQ(find_saturation(caps), 21U);
  double const next = std::nextafter(2.0, 3.0);
  EXPECT_EQ(
      find_saturation({layer_with(next, next), layer_with(next, next), layer_with(2.0, 2.0), layer_with(2.0, 2.0)}),
      3U);
}

} // namespace
} // namespace varve
