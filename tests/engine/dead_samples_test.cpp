#include "engine/hand_made.hpp"
#include "engine/places.hpp"

#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace varve {
namespace {

using test::diagonal_layer;
using test::Place;
using test::ramp_samples;

class DeadSamples : public testing::TestWithParam<Place> {
protected:
  /// Runs, compares everything with the reference, and gives the numbers of the live samples.
  static std::vector<SampleIndex> live_after(Network const& network, SampleSet const& samples) {
    auto const expected = test::reference_of(network, samples, GetParam().precision);
    auto const result = test::run_all(network, samples, test::options_at(GetParam())).result;
    EXPECT_EQ(result.activations, expected);
    EXPECT_EQ(result.predictions, largest(expected.matrix));
    EXPECT_EQ(result.activation_hash, hash(expected, GetParam().precision));
    EXPECT_EQ(result.live_samples, categories(expected));
    return result.live_samples;
  }

  static std::vector<SampleIndex> numbers(SampleIndex first, SampleIndex last) {
    std::vector<SampleIndex> list;
    for (SampleIndex number = first; number < last; ++number) list.push_back(number);
    return list;
  }

  static constexpr std::size_t neurons = 37;
  static constexpr std::size_t count = 130;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, DeadSamples, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(DeadSamples, LeaveOneAfterTheOther) {
  // Each layer takes 0.35 off every activation: samples 4, 7, 11, ... are the first left.
  std::vector<Layer> const layers(30, diagonal_layer(neurons, 1.0, {-0.35}, Activation::relu()));
  auto const live = live_after(Network(layers), ramp_samples(count, neurons));
  EXPECT_EQ(live.back(), count - 1);
  EXPECT_EQ(live.size(), count - live.front());
  EXPECT_GT(live.front(), 100U);
}

TEST_P(DeadSamples, AreRevivedByAPositiveBiasAtTheEnd) {
  std::vector<Layer> layers(20, diagonal_layer(neurons, 1.0, {-0.35}, Activation::relu()));
  layers.push_back(diagonal_layer(neurons, 1.0, {0.5}, Activation::relu()));
  EXPECT_EQ(live_after(Network(layers), ramp_samples(count, neurons)), numbers(0, count));
}

TEST_P(DeadSamples, AreRevivedByOneNeuronOnly) {
  std::vector<double> bias(neurons, -1.0);
  bias.back() = 0.25;
  std::vector<Layer> layers(20, diagonal_layer(neurons, 1.0, {-0.35}, Activation::clipped_relu(32.0)));
  layers.push_back(diagonal_layer(neurons, 1.0, bias, Activation::relu()));
  layers.push_back(diagonal_layer(neurons, 1.0, {-0.125}, Activation::relu()));
  EXPECT_EQ(live_after(Network(layers), ramp_samples(count, neurons)), numbers(0, count));
}

TEST_P(DeadSamples, AreRevivedByANegativeBiasWithoutRelu) {
  std::vector<Layer> layers(20, diagonal_layer(neurons, 1.0, {-0.35}, Activation::relu()));
  layers.push_back(diagonal_layer(neurons, 1.0, {-0.5}, Activation::identity()));
  layers.push_back(diagonal_layer(neurons, -1.0, {0.0}, Activation::relu()));
  auto const live = live_after(Network(layers), ramp_samples(count, neurons));
  EXPECT_EQ(live.front(), 0U);
  EXPECT_LT(live.size(), count);
}

TEST_P(DeadSamples, AreRevivedAndDieAgain) {
  std::vector<Layer> layers;
  for (int round = 0; round < 3; ++round) {
    layers.insert(layers.end(), 6, diagonal_layer(neurons, 1.0, {-0.35}, Activation::relu()));
    layers.push_back(diagonal_layer(neurons, 1.0, {0.5}, Activation::relu()));
  }
  layers.insert(layers.end(), 9, diagonal_layer(neurons, 1.0, {-0.35}, Activation::relu()));
  auto const live = live_after(Network(layers), ramp_samples(count, neurons));
  EXPECT_GT(live.front(), 0U);
  EXPECT_FALSE(live.empty());
}

TEST_P(DeadSamples, AllDieAtOnce) {
  std::vector<Layer> layers(3, diagonal_layer(neurons, 1.0, {0.0}, Activation::relu()));
  layers.push_back(diagonal_layer(neurons, 1.0, {-1000.0}, Activation::relu()));
  layers.insert(layers.end(), 20, diagonal_layer(neurons, 1.0, {0.0}, Activation::relu()));
  EXPECT_TRUE(live_after(Network(layers), ramp_samples(count, neurons)).empty());
}

TEST_P(DeadSamples, AllDieAtOnceAndAllRevive) {
  std::vector<Layer> layers(3, diagonal_layer(neurons, 1.0, {0.0}, Activation::relu()));
  layers.push_back(diagonal_layer(neurons, 1.0, {-1000.0}, Activation::relu()));
  layers.push_back(diagonal_layer(neurons, 1.0, {1.0}, Activation::relu()));
  EXPECT_EQ(live_after(Network(layers), ramp_samples(count, neurons)), numbers(0, count));
}

TEST_P(DeadSamples, AllAreDeadFromTheStart) {
  SampleSet samples;
  samples.matrix.num_rows = count;
  samples.matrix.num_columns = neurons;
  samples.matrix.row_pointers.assign(count + 1, 0);
  std::vector<Layer> const layers(5, diagonal_layer(neurons, 1.0, {0.0}, Activation::relu()));
  EXPECT_TRUE(live_after(Network(layers), samples).empty());
}

TEST_P(DeadSamples, DieOnlyInTheLastLayer) {
  std::vector<Layer> layers(4, diagonal_layer(neurons, 1.0, {0.0}, Activation::relu()));
  layers.push_back(diagonal_layer(neurons, 1.0, {-5.0}, Activation::relu()));
  EXPECT_EQ(live_after(Network(layers), ramp_samples(count, neurons)), numbers(51, count));
}

TEST_P(DeadSamples, AreNoNegativeOnes) {
  // With identity a sample of negative activations lives on.
  std::vector<Layer> const layers(12, diagonal_layer(neurons, -1.0, {0.0}, Activation::identity()));
  EXPECT_EQ(live_after(Network(layers), ramp_samples(count, neurons)), numbers(1, count));
  std::vector<Layer> const odd(13, diagonal_layer(neurons, -1.0, {0.0}, Activation::identity()));
  EXPECT_EQ(live_after(Network(odd), ramp_samples(count, neurons)), numbers(1, count));
}

TEST_P(DeadSamples, NegativeZerosAreDead) {
  Layer halved = diagonal_layer(neurons, -1e-40, {-0.0}, Activation::identity());
  std::vector<Layer> layers(1, halved);
  layers.insert(layers.end(), 8, diagonal_layer(neurons, 1e-300, {0.0}, Activation::identity()));
  EXPECT_TRUE(live_after(Network(layers), ramp_samples(count, neurons)).empty());
}

TEST_P(DeadSamples, OutnumberTheLivingInDeepNetworks) {
  // One of 130 samples lives on through 100 layers; the others die in the first.
  auto samples = ramp_samples(count, neurons);
  for (std::size_t entry = 0; entry < samples.matrix.num_entries(); ++entry) {
    samples.matrix.values[entry] = entry / neurons == 76 ? 100.0 : 0.1; // sample 77: sample 0 is empty
  }
  std::vector<Layer> const layers(100, diagonal_layer(neurons, 1.0, {-0.25}, Activation::relu()));
  EXPECT_EQ(live_after(Network(layers), samples), (std::vector<SampleIndex>{77}));
}

} // namespace
} // namespace varve
