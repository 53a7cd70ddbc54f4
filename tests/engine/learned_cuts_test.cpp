#include "engine/places.hpp"

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;

class LearnedCuts : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, LearnedCuts, testing::ValuesIn(test::all_places()), test::name_of);

constexpr std::size_t num_neurons = 256;
constexpr std::size_t num_layers = 40;
constexpr std::size_t samples_of_batch = 1200;

/// Every output is the mean of 16 inputs, less 0.05: a sample with the same value x in all neurons lives for 20 x
/// layers.
Network fading_network() {
  std::vector<Layer> layers(num_layers);
  for (auto& layer : layers) {
    layer.weights.num_rows = layer.weights.num_columns = num_neurons;
    for (std::size_t output = 0; output < num_neurons; ++output) {
      for (std::size_t input = 0; input < 16; ++input)
        layer.weights.column_indices.push_back(static_cast<NeuronIndex>(output / 16 * 16 + input));
      layer.weights.row_pointers.push_back(layer.weights.column_indices.size());
    }
    layer.weights.values = {0.0625};
    layer.bias = {-0.05};
    layer.activation = Activation::clipped_relu(32.0);
  }
  return Network(std::move(layers));
}

/// Every fourth sample dies in layer 13, every fourth in layer 23, the others live.
SampleSet samples_that_fade() {
  SampleSet samples;
  auto& matrix = samples.matrix;
  matrix.num_rows = 3 * samples_of_batch;
  matrix.num_columns = num_neurons;
  for (std::size_t sample = 0; sample < matrix.num_rows; ++sample) {
    double const value = sample % 4 == 0 ? 0.62 : sample % 4 == 1 ? 1.12 : 3.0 + static_cast<double>(sample) / 1e4;
    for (std::size_t neuron = 0; neuron < num_neurons; ++neuron) {
      matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
      matrix.values.push_back(value);
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return samples;
}

TEST_P(LearnedCuts, FollowsTheSamplesOfTheBatchBeforeAndChangesNoBit) {
  auto const network = fading_network();
  auto const samples = samples_that_fade();
  auto options = test::options_at(GetParam());
  options.kernel = KernelName::fused;
  options.batch = samples_of_batch;
  auto const inference = prepare(network, options);
  auto const shape = shape_of(samples);
  std::size_t const before = inference->plan(shape).steps.size();
  for (std::size_t first = 0; first < samples.num_samples(); first += samples_of_batch) {
    auto const part = samples_of(samples, first, first + samples_of_batch);
    EXPECT_EQ(inference->infer(part, {true, true}).activations,
              test::reference_of(network, part, GetParam().precision));
  }
  if (has_own_memory(GetParam().backend)) return; // so few samples do not fill a GPU: nothing to learn
  EXPECT_LT(inference->plan().steps.size(), before) << "nobody leaves in the first twelve layers";
  EXPECT_EQ(inference->plan(shape).steps.size(), inference->plan().steps.size()) << "what was learned stays";
}

} // namespace
} // namespace varve
