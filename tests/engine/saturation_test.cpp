#include "engine/hand_made.hpp"
#include "engine/places.hpp"

#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace varve {
namespace {

using test::diagonal_layer;
using test::Place;

constexpr std::size_t kNeurons = 37;

/// `count` samples of ones, then as many of twos.
SampleSet ones_and_twos(std::size_t count) {
  SampleSet samples;
  samples.matrix.num_rows = 2 * count;
  samples.matrix.num_columns = kNeurons;
  for (std::size_t sample = 0; sample < 2 * count; ++sample) {
    for (std::size_t neuron = 0; neuron < kNeurons; ++neuron) {
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
      samples.matrix.values.push_back(sample < count ? 1.0 : 2.0);
    }
    samples.matrix.row_pointers.push_back(samples.matrix.num_entries());
  }
  return samples;
}

void append(std::vector<Layer>& layers, std::size_t count, double weight, double bias, double cap) {
  layers.insert(layers.end(), count, diagonal_layer(kNeurons, weight, {bias}, Activation::clipped_relu(cap)));
}

std::vector<Layer> layers_of(std::size_t first, std::size_t middle, double bias_in_middle, double last_cap) {
  std::vector<Layer> layers;
  append(layers, first, 1.0, 0.0, 2.0);
  append(layers, middle, 2.0, bias_in_middle, 2.0);
  append(layers, 20, 1.0, 0.0, last_cap);
  return layers;
}

class Saturation : public testing::TestWithParam<Place> {
protected:
  /// Runs with the reduction and compares with the reference, of whose samples so many live; gives the number of layers
  /// after which the plan takes saturated samples out.
  static std::optional<std::size_t> saturates_from(std::vector<Layer> const& layers, std::size_t num_live) {
    Network const network(layers);
    auto const samples = ones_and_twos(40);
    auto const expected = test::reference_of(network, samples, GetParam().precision);
    EXPECT_EQ(categories(expected).size(), num_live);
    auto options = test::options_at(GetParam());
    options.reductions.saturation = true;
    auto const outcome = test::run_all(network, samples, options);
    EXPECT_EQ(outcome.result.activations, expected);
    EXPECT_EQ(outcome.result.live_samples, categories(expected));
    EXPECT_EQ(outcome.result.activation_hash, hash(expected, GetParam().precision));
    return outcome.plan.saturates_from;
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, Saturation, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(Saturation, StartsBehindLayersOfAnotherCap) {
  // 2 x - 2 keeps twos and makes ones, which are saturated in the last layers only, into zeros.
  EXPECT_EQ(saturates_from(layers_of(8, 12, -2.0, 1.0), 40), 21U);
}

TEST_P(Saturation, StartsAtOnceIfAllLayersKeepOneCap) {
  EXPECT_EQ(saturates_from(layers_of(8, 12, -2.0, 2.0), 40), 1U);
}

TEST_P(Saturation, StartsBehindALayerThatBarelyDoesNotKeepItsCap) {
  double const bit = GetParam().precision == Precision::double_precision ? 0x1p-51 : 0x1p-22;
  auto layers = layers_of(8, 12, -2.0, 2.0);
  layers[11] = diagonal_layer(kNeurons, 2.0, {-2.0 - bit}, Activation::clipped_relu(2.0)); // 2 becomes 2 - bit
  EXPECT_EQ(saturates_from(layers, 40), 12U);
}

} // namespace
} // namespace varve
