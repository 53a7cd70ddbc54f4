#include "engine/places.hpp"
#include "passes/stride_network.hpp"

#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;

class FewEdges : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, FewEdges, testing::ValuesIn(test::all_places()), test::name_of);

/// Runs a network in several batches and expects the reference's answer in all bits.
void expect_answer(Network const& network, SampleSet const& samples, InferenceOptions options) {
  auto const expected = test::reference_of(network, samples, options.precision);
  for (std::size_t const batch : {samples.num_samples(), std::size_t(33)}) {
    options.batch = batch;
    SCOPED_TRACE(test::describe(options));
    auto const outcome = test::run_all(network, samples, options);
    EXPECT_EQ(outcome.result.activation_hash, hash(expected, options.precision));
    EXPECT_EQ(outcome.result.live_samples, categories(expected));
    EXPECT_EQ(outcome.result.activations, expected);
  }
}

bool has_kernel(Plan const& plan, KernelName kernel) {
  return std::ranges::any_of(plan.steps, [&](Step const& step) { return step.kernel == kernel; });
}

/// Values of their own.
SampleSet real_samples(std::size_t num_samples, std::size_t num_neurons, RandomStream& random) {
  auto samples = digit_images(num_neurons, num_samples, 9);
  samples.matrix.values.clear();
  for (std::size_t i = 0; i < samples.matrix.num_entries(); ++i)
    samples.matrix.values.push_back(0.25 + static_cast<double>(random.below(1000)) / 700.0);
  return samples;
}

TEST_P(FewEdges, CompleteRunsOfLayersAsCones) {
  RandomStream random(11, 0);
  auto layers = test::butterfly_layers(256, 11, random);
  layers.push_back(test::stride_layer(100, 256, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, random));
  layers.push_back(test::stride_layer(130, 100, {0, 50}, random)); // rectangular, and a run that ends the network
  Network const network(std::move(layers));
  auto options = test::options_at(GetParam());
  auto const plan = prepare(network, options)->plan({100, 1000});
  EXPECT_TRUE(has_kernel(plan, KernelName::cones));
  EXPECT_LT(runs_of(plan.steps).size(), 8U) << "several layers to a run";
  auto const images = digit_images(256, 150, 4);
  ASSERT_GT(categories(infer(network, images)).size(), 0U);
  expect_answer(network, images, options);
  expect_answer(network, real_samples(150, 256, random), options);
  options.formats = {FormatName::csr};
  EXPECT_FALSE(has_kernel(prepare(network, options)->plan({100, 1000}), KernelName::cones));
  options.formats = {FormatName::cones, FormatName::csr};
  EXPECT_TRUE(has_kernel(prepare(network, options)->plan({100, 1000}), KernelName::cones));
  expect_answer(network, images, options);
}

TEST_P(FewEdges, DeadSamplesThatALaterBiasRevivesStayInConesToo) {
  RandomStream random(12, 0);
  auto layers = test::butterfly_layers(64, 8, random);
  for (auto& layer : layers) layer.bias = {-0.6};
  layers.back().bias.assign(64, -0.1);
  layers.back().bias[7] = 0.5;
  Network const network(std::move(layers));
  auto const images = digit_images(64, 90, 4);
  auto options = test::options_at(GetParam());
  expect_answer(network, images, options);
  EXPECT_EQ(test::run_all(network, images, options).result.live_samples.size(), 90U);
}

TEST_P(FewEdges, ConesAreLeftToOthersWhereActivationsDiffer) {
  RandomStream random(13, 0);
  auto layers = test::butterfly_layers(64, 6, random);
  layers[3].activation = {ActivationKind::relu, 0.0};
  layers[4].activation = {ActivationKind::identity, 0.0};
  Network const network(std::move(layers));
  expect_answer(network, digit_images(64, 90, 4), test::options_at(GetParam()));
}

/// All weights and biases of the first layer equal: where samples have one value, entries are counted.
Network network_to_count(std::size_t num_outputs, std::vector<std::size_t> const& strides, RandomStream& random) {
  std::vector<Layer> layers;
  layers.push_back(test::stride_layer(num_outputs, 1024, strides, random));
  layers.front().weights.values = {0.3};
  layers.front().bias = {-0.35};
  layers.push_back(test::stride_layer(40, num_outputs, {0, 1, 2, 3, 4, 5, 6, 7, 8}, random));
  return Network(std::move(layers));
}

TEST_P(FewEdges, EntriesAreCountedWhereWeightsAreEqual) {
  RandomStream random(14, 0);
  for (auto const& [num_outputs, strides] : std::vector<std::pair<std::size_t, std::vector<std::size_t>>>{
           {1, {0, 1, 2}}, {50, {0, 50, 100, 700}}, {1024, {0, 300}}, {1024, {0, 1, 2, 3}}, {2000, {5}}}) {
    SCOPED_TRACE(testing::Message() << num_outputs << " outputs");
    auto const network = network_to_count(num_outputs, strides, random);
    auto const options = test::options_at(GetParam());
    auto const kernel = prepare(network, options)->plan({100, 1000, true}).steps.front().kernel;
    EXPECT_TRUE(kernel == KernelName::counts || (num_outputs == 1 && kernel == KernelName::stationary));
    auto images = digit_images(1024, 150, 4);
    images.matrix.values = {1.7};
    expect_answer(network, images, options);
    expect_answer(network, real_samples(70, 1024, random), options);
  }
}

TEST_P(FewEdges, EntriesAreNotCountedWhereWeightsOrBiasesDifferOrMostOutputsReadAnInput) {
  RandomStream random(15, 0);
  auto const counts = [&](std::vector<Layer> layers) {
    Network const network(std::move(layers));
    auto const images = digit_images(1024, 60, 4);
    expect_answer(network, images, test::options_at(GetParam()));
    return prepare(network, test::options_at(GetParam()))->plan({60, 1000, true}).steps.front().kernel ==
           KernelName::counts;
  };
  auto const fit = network_to_count(200, {0, 300}, random).layers();
  EXPECT_TRUE(counts(fit));
  auto other = fit;
  other.front().bias.assign(200, -0.35);
  other.front().bias[3] = -0.34;
  EXPECT_FALSE(counts(other));
  other = fit;
  other.front().weights.values.assign(other.front().num_edges(), 0.3);
  other.front().weights.values[5] = 0.31;
  EXPECT_FALSE(counts(other));
  EXPECT_FALSE(counts(network_to_count(1024, {0, 1, 2, 3, 4}, random).layers()));
}

TEST_P(FewEdges, ABatchOfOtherValuesThanPlannedIsTakenToo) {
  RandomStream random(16, 0);
  auto const network = network_to_count(200, {0, 300}, random);
  auto const inference = prepare(network, test::options_at(GetParam()));
  auto const images = digit_images(1024, 40, 4);
  auto const others = real_samples(40, 1024, random);
  inference->plan({40, images.matrix.num_entries(), true});
  for (auto const* const samples : {&images, &others, &images}) {
    EXPECT_EQ(inference->infer(*samples, {true, true}).activations,
              test::reference_of(network, *samples, GetParam().precision));
  }
}

/// Samples of a wide input, `step` inputs apart on average, each value its own; one of them without entries.
SampleSet wide_samples(std::size_t num_samples, std::size_t num_neurons, std::size_t step, RandomStream& random) {
  SampleSet samples;
  samples.matrix.num_rows = num_samples;
  samples.matrix.num_columns = num_neurons;
  for (std::size_t row = 0; row < num_samples; ++row) {
    for (auto neuron = random.below(2 * step); row != 3 && neuron < num_neurons; neuron += 1 + random.below(2 * step)) {
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
      samples.matrix.values.push_back(static_cast<double>(random.below(2000)) / 700.0 - 1.2);
    }
    samples.matrix.row_pointers.push_back(samples.matrix.column_indices.size());
  }
  return samples;
}

/// A network that reads 5000 inputs by so many outputs, each of which reads these strides. Weights have both signs, and
/// so have sums.
Network wide_network(std::size_t num_outputs, std::vector<std::size_t> const& strides, Activation const& activation,
                     RandomStream& random) {
  std::vector<Layer> layers;
  layers.push_back(test::stride_layer(num_outputs, 5000, strides, random));
  for (auto& weight : layers.front().weights.values) weight -= 0.4;
  layers.front().bias.assign(num_outputs, 0.05);
  layers.front().bias.back() = -0.0;
  layers.front().activation = activation;
  layers.push_back(test::stride_layer(40, num_outputs, {0, 1, 2, 3, 4, 5, 6, 7}, random));
  return Network(std::move(layers));
}

TEST_P(FewEdges, EntriesOfWideSamplesAreReadAlone) {
  RandomStream random(17, 0);
  std::vector<std::size_t> const few = {0, 1, 7, 300, 1200, 3000, 4999};
  std::vector<std::size_t> all(5000);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (auto const& [strides, activation] :
       std::vector<std::pair<std::vector<std::size_t>, Activation>>{{few, {ActivationKind::relu}},
                                                                    {few, Activation::clipped_relu(0.7)},
                                                                    {few, {ActivationKind::identity}},
                                                                    {all, {ActivationKind::relu}}}) {
    bool const is_dense = strides.size() == all.size();
    auto const network = wide_network(is_dense ? 8 : 70, strides, activation, random);
    auto options = test::options_at(GetParam());
    for (auto const expected_samples : {std::optional<std::size_t>(), std::optional<std::size_t>(1)}) {
      options.expected_samples = expected_samples;
      auto const inference = prepare(network, options);
      auto const kernel_for = [&](InputShape const& input) { return inference->plan(input).steps.front().kernel; };
      EXPECT_NE(kernel_for({1, 70}), KernelName::entries) << "a copy is not worth its time";
      std::size_t enough = 2;
      while (enough < std::size_t{1} << 22U && kernel_for({enough, 70 * enough}) != KernelName::entries) enough *= 2;
      EXPECT_NE(kernel_for({100, 8000}), KernelName::entries) << "more than one entry in 64 inputs";
      EXPECT_EQ(kernel_for({100, 7000}), KernelName::entries) << "once the copy is there";
      for (std::size_t const step : {80U, 700U}) {
        auto samples = wide_samples(70, 5000, step, random);
        for (bool const has_one_value : {false, true}) {
          if (has_one_value) samples.matrix.values = {1.3};
          auto const expected = test::reference_of(network, samples, options.precision);
          auto const result = inference->infer(samples, {true, true});
          EXPECT_EQ(inference->plan().steps.front().kernel, KernelName::entries);
          EXPECT_EQ(result.activations, expected);
          EXPECT_EQ(result.activation_hash, hash(expected, options.precision));
        }
      }
    }
  }
}

TEST_P(FewEdges, WideSamplesOfManyAndOfFewEntriesAlternate) {
  RandomStream random(18, 0);
  auto const network = wide_network(70, {0, 1, 7, 300, 4999}, {ActivationKind::relu}, random);
  auto const many = wide_samples(140, 5000, 10, random);
  auto const few = wide_samples(140, 5000, 200, random);
  constexpr std::size_t enough = 1U << 20U; // for a copy of the layer
  for (auto const* const expected : {&many, &few}) {
    auto const inference = prepare(network, test::options_at(GetParam()));
    inference->plan({enough, enough});
    inference->plan(shape_of(SampleBatch(*expected)));
    for (auto const* const samples : {&few, &many, &few}) {
      EXPECT_EQ(inference->infer(*samples, {true, true}).activations,
                test::reference_of(network, *samples, GetParam().precision));
      EXPECT_EQ(inference->plan().steps.front().kernel == KernelName::entries, samples == &few);
    }
  }
}

} // namespace
} // namespace varve
