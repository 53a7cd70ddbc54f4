#include "engine/hand_made.hpp"
#include "engine/places.hpp"

#include "network/sample_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::diagonal_layer;
using test::Place;

class Overflow : public testing::TestWithParam<Place> {
protected:
  /// A weight of which five in a row leave the range of the precision.
  static double large() { return GetParam().precision == Precision::double_precision ? 1e80 : 1e10; }
  static double largest() {
    return GetParam().precision == Precision::double_precision ? std::numeric_limits<double>::max()
                                                               : static_cast<double>(std::numeric_limits<float>::max());
  }

  /// The reference's answer, which all formats, kernels and reductions must give.
  static SampleSet expect_one_answer(Network const& network, SampleSet const& samples) {
    auto const expected = test::reference_of(network, samples, GetParam().precision);
    for (auto const& options : test::all_choices(GetParam())) {
      SCOPED_TRACE(test::describe(options));
      auto const outcome = test::run_all(network, samples, options);
      EXPECT_EQ(outcome.result.live_samples, categories(expected));
      EXPECT_EQ(outcome.result.activations, expected);
    }
    return expected;
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, Overflow, testing::ValuesIn(test::all_places()), test::name_of);

/// All values 1, stored once.
SampleSet ones(std::size_t num_samples, std::size_t neurons) {
  auto samples = test::ramp_samples(num_samples + 1, neurons); // the first is empty
  samples.matrix.values = {1.0};
  return samples;
}

/// `depth` layers of 8 neurons, each output reading the input of its own number.
Network chain(std::size_t depth, double weight, Activation activation) {
  std::vector<Layer> layers(depth, diagonal_layer(8, weight, {0.0}, activation));
  return Network(std::move(layers));
}

TEST_P(Overflow, StopsAtTheLargestFiniteNumber) {
  auto const last = expect_one_answer(chain(5, large(), Activation::relu()), ones(3, 8));
  EXPECT_EQ(categories(last), (std::vector<SampleIndex>{1, 2, 3}));
  EXPECT_THAT(last.matrix.values, testing::Each(largest()));
}

TEST_P(Overflow, HasBothSignsInIdentityLayers) {
  auto const last = expect_one_answer(chain(5, -large(), Activation::identity()), test::ramp_samples(4, 8));
  EXPECT_EQ(categories(last).size(), 3U);
  EXPECT_THAT(last.matrix.values, testing::Each(-largest()));
}

TEST_P(Overflow, StopsAtCapsBeyondTheRangeOfFloat) {
  auto const last = expect_one_answer(chain(5, large(), Activation::clipped_relu(1e39)), ones(3, 8));
  EXPECT_EQ(categories(last).size(), 3U);
  EXPECT_THAT(last.matrix.values,
              testing::Each(GetParam().precision == Precision::double_precision ? 1e39 : largest()));
}

TEST_P(Overflow, OfSumsWithTermsOfBothSignsIsTheSameEverywhere) {
  std::vector<Layer> layers;
  for (int depth = 0; depth < 5; ++depth) { // outputs of two and of three edges, so that formats pad
    Layer layer;
    layer.weights.num_rows = layer.weights.num_columns = 8;
    for (NeuronIndex output = 0; output < 8; ++output) {
      for (NeuronIndex input = output % 2; input < 8; input += output % 3 == 0 ? 3 : 4) {
        layer.weights.column_indices.push_back(input);
        layer.weights.values.push_back(input % 4 == 1 ? -large() / 3.0 : large() * (1.0 + output));
      }
      layer.weights.row_pointers.push_back(layer.weights.num_entries());
    }
    layer.activation = depth == 2 ? Activation::identity() : Activation::relu();
    layers.push_back(std::move(layer));
  }
  auto const last = expect_one_answer(Network(std::move(layers)), test::ramp_samples(9, 8));
  EXPECT_GT(categories(last).size(), 0U);
}

TEST_P(Overflow, OfWhatIsGivenIsRefused) {
  if (GetParam().precision == Precision::double_precision) {
    EXPECT_NO_THROW(test::run_all(chain(2, 1e39, Activation::relu()), ones(3, 8), test::options_at(GetParam())));
    return;
  }
  auto options = test::options_at(GetParam());
  options.input_name = "img.safetensors";
  for (auto const engine : {Engine::varve, Engine::reference}) {
    options.engine = engine;
    EXPECT_THAT([&] { test::run_all(chain(2, 1e39, Activation::relu()), ones(3, 8), options); },
                testing::ThrowsMessage<InputError>(testing::HasSubstr("layer 0: the weight from input 0 to output 0")));
    auto samples = ones(3, 8);
    samples.matrix.values = {1e39};
    EXPECT_THAT([&] { test::run_all(chain(2, 1.0, Activation::relu()), samples, options); },
                testing::ThrowsMessage<InputError>(
                    testing::HasSubstr("img.safetensors: sample 2: the value of neuron 1 is 1e+39")));
    samples = test::ramp_samples(4, 8);
    samples.matrix.values.back() = -1e39;
    EXPECT_THAT(
        [&] { test::run_all(chain(2, 1.0, Activation::relu()), samples, options); },
        testing::ThrowsMessage<InputError>(testing::HasSubstr("img.safetensors: sample 4: the value of neuron 8")));
  }
}

} // namespace
} // namespace varve
