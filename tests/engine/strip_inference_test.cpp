#include "engine/draw.hpp"
#include "engine/hand_made.hpp"
#include "engine/places.hpp"
#include "engine/refused_limit.hpp"

#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Outcome;
using test::Place;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t mebibyte = std::size_t(1) << 20U;

RandomNetwork network_of(std::vector<std::size_t> widths, double density) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.density = density;
  recipe.lowest_bias = -0.6; // some samples die
  recipe.highest_bias = 0.0;
  return RandomNetwork(recipe);
}

/// The most strips that a layer of the plan has; 1 if all layers are whole.
std::size_t max_strips(Plan const& plan) {
  return std::ranges::max_element(plan.steps, {}, &Step::num_strips)->num_strips;
}

void expect_equal(Outcome const& outcome, Outcome const& expected) {
  EXPECT_EQ(outcome.result.activations, expected.result.activations);
  EXPECT_EQ(outcome.result.activation_hash, expected.result.activation_hash);
  EXPECT_EQ(outcome.result.live_samples, expected.result.live_samples);
  EXPECT_EQ(outcome.result.predictions, expected.result.predictions);
}

class StripInference : public testing::TestWithParam<Place> {
protected:
  static InferenceOptions options() { return test::options_at(GetParam()); }

  /// Room for the panel in any case, this much for weights on the device and that much on the host.
  static InferenceOptions limited(InferenceOptions options, std::size_t device_weights, std::size_t host_weights) {
    options.device_memory_limit = 64 * mebibyte;
    options.device_weight_limit = device_weights;
    options.memory_limit = host_weights + (has_own_memory(options.backend) ? 0 : 64 * mebibyte);
    return options;
  }

  /// So many times the least limit: fewer strips, which take less time. GPUs have large blocks, of which there are few.
  static std::size_t few_times(std::size_t least, std::size_t times) {
    return has_own_memory(GetParam().backend) ? least : times * least;
  }

  /// With a tenth of the weights on the device: several batches, passes over each, hosts that keep images or do not.
  static void expect_same_bits(NetworkSource const& network, SampleSet const& samples, InferenceOptions const& choice) {
    for (char const* const reductions : {"none", "auto"}) {
      auto options = choice;
      options.reductions = parse_reductions(reductions);
      auto const whole = test::run_all(network, samples, options);
      EXPECT_EQ(max_strips(whole.plan), 1U);
      EXPECT_EQ(whole.result.activations, test::reference_of(network, samples, GetParam().precision));
      for (std::size_t const host : {64 * mebibyte, std::size_t(0)}) {
        SCOPED_TRACE(testing::Message() << "reductions " << reductions << ", " << host << " bytes on the host");
        auto tight = limited(options, whole.plan.weight_bytes / 10, host);
        tight.batch = 40;
        tight.repeat = 2;
        auto const outcome = test::run_all(network, samples, tight);
        EXPECT_GE(max_strips(outcome.plan), 3U);
        EXPECT_GE(outcome.num_batches, 2U);
        EXPECT_LE(outcome.plan.weight_bytes, whole.plan.weight_bytes / 10);
        ASSERT_TRUE(outcome.plan.stream.has_value());
        EXPECT_EQ(outcome.plan.stream->num_remade > 0, host == 0);
        expect_equal(outcome, whole);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, StripInference, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(StripInference, OfSparseLayersGivesTheSameBits) {
  auto const network = network_of({700, 900, 801, 333}, 0.1);
  auto const samples = random_samples(700, 90, 0.3, 5);
  expect_same_bits(network, samples, options());
  auto few = options();
  few.expected_samples = 3; // smaller tiles on hosts
  expect_same_bits(network, samples, few);
}

TEST_P(StripInference, OfDenseLayersGivesTheSameBits) {
  auto const network = network_of({1000, 1100, 1003, 1050}, 1.0);
  auto const samples = random_samples(1000, 70, 0.3, 6);
  auto dense = options();
  dense.formats = {FormatName::dense};
  expect_same_bits(network, samples, dense);
  auto const room = test::run_all(network, samples, dense).plan.weight_bytes / 10;
  auto const plan = prepare(network, limited(dense, room, 64 * mebibyte))->plan(shape_of(samples));
  EXPECT_THAT(to_text(plan).front(), AllOf(HasSubstr("dense blocks"), HasSubstr("strips of outputs")));
}

TEST_P(StripInference, OfLayersInAnyFormatAndKernelGivesTheSameBits) {
  auto const network = network_of({200, 260, 231, 190}, 0.35);
  auto const samples = random_samples(200, 70, 0.4, 7);
  auto const expected = test::reference_of(network, samples, GetParam().precision);
  std::size_t num_cut = 0;
  test::Draw draw;
  for (auto options : test::all_choices(GetParam())) {
    if (!draw.next()) continue;
    SCOPED_TRACE(test::describe(options));
    auto const least = test::refused_limit(network, limited(options, 1, 64 * mebibyte));
    auto const outcome = test::run_all(network, samples, limited(options, few_times(least, 3), 64 * mebibyte));
    EXPECT_EQ(outcome.result.activations, expected);
    EXPECT_EQ(outcome.result.activation_hash, hash(expected, GetParam().precision));
    num_cut += max_strips(outcome.plan) > 1 ? 1 : 0;
  }
  EXPECT_EQ(num_cut, test::Draw::count(test::all_choices(GetParam()).size()));
}

TEST_P(StripInference, WithCurvesGivesTheSameBits) {
  std::vector<Layer> layers;
  auto const plain = network_of({200, 260, 231, 190}, 0.35);
  for (std::size_t number = 0; number < 3; ++number) {
    layers.push_back(plain.layer(number));
    layers.back().activation = number == 1 ? Activation::sigmoid() : Activation::tanh();
  }
  Network const network(layers);
  auto const samples = random_samples(200, 70, 0.4, 8);
  auto const weights = prepare(network, options())->plan(shape_of(samples)).weight_bytes;
  auto const outcome = test::run_all(network, samples, limited(options(), weights / 10, 64 * mebibyte));
  EXPECT_GE(max_strips(outcome.plan), 3U);
  EXPECT_EQ(outcome.result.activations, test::reference_of(network, samples, GetParam().precision));
}

/// Each sample is alive by one activation, which is in another strip for each of them, or dies in some layer.
TEST_P(StripInference, KeepsSamplesThatAreAliveInOneStrip) {
  constexpr std::size_t width = 300;
  std::vector<Layer> layers;
  for (std::size_t number = 0; number < 9; ++number)
    layers.push_back(test::diagonal_layer(width, number % 2 == 0 ? 1.5 : 0.7, {-0.01}, Activation::clipped_relu(2.0)));
  Network const network(layers);
  SampleSet samples;
  samples.matrix.num_rows = 2 * width;
  samples.matrix.num_columns = width;
  for (std::size_t sample = 0; sample < 2 * width; ++sample) {
    if (sample % 7 != 6) {
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(sample * 11 % width));
      samples.matrix.values.push_back(0.01 + 0.03 * static_cast<double>(sample % 5));
    }
    samples.matrix.row_pointers.push_back(samples.matrix.column_indices.size());
  }
  auto const expected = test::reference_of(network, samples, GetParam().precision);
  ASSERT_GT(categories(expected).size(), width);
  ASSERT_LT(categories(expected).size(), 2 * width);
  for (auto const format : {FormatName::csr, FormatName::dense}) {
    auto some = options();
    some.formats = {format};
    auto const least = test::refused_limit(network, limited(some, 1, 64 * mebibyte));
    for (auto const batch : {std::size_t(64), 2 * width}) {
      auto tight = limited(some, few_times(least, format == FormatName::csr ? 2 : 4), 64 * mebibyte);
      tight.batch = batch;
      auto const outcome = test::run_all(network, samples, tight);
      EXPECT_GE(max_strips(outcome.plan), 3U);
      EXPECT_TRUE(std::ranges::any_of(outcome.plan.steps, [](Step const& step) {
        return step.num_strips > 1 && step.ends_layer() && step.lists_live && step.last_layer < 8;
      })) << "samples leave between layers in strips";
      EXPECT_EQ(outcome.result.activations, expected);
      EXPECT_EQ(outcome.result.live_samples, categories(expected));
      if (format == FormatName::dense) continue; // the same kernel without strips counts the same edges
      some.kernel = KernelName::direct;
      some.batch = batch;
      EXPECT_EQ(outcome.result.live_edges, test::run_all(network, samples, some).result.live_edges);
    }
  }
}

TEST_P(StripInference, FitsALimitForEverything) {
  auto const network = network_of({1700, 1800, 1750, 1800}, 1.0);
  auto const samples = random_samples(1700, 100, 0.2, 9);
  auto const whole = test::run_all(network, samples, options());
  auto tight = options();
  tight.device_memory_limit = whole.plan.weight_bytes / 10;
  auto const least = test::refused_limit(network, [&] {
    auto none = options();
    none.device_memory_limit = mebibyte;
    return none;
  }());
  if (least > *tight.device_memory_limit) tight.device_memory_limit = least; // activations of double are wider
  auto const outcome = test::run_all(network, samples, tight);
  auto const& plan = outcome.plan;
  EXPECT_GE(max_strips(plan), 3U);
  EXPECT_LE(plan.weight_bytes + plan.panel_bytes + plan.sample_bytes, *tight.device_memory_limit);
  expect_equal(outcome, whole);
}

TEST_P(StripInference, TooLittleIsASentenceWithALimitThatSuffices) {
  auto const network = network_of({300, 310, 290, 280}, 0.9);
  auto const samples = random_samples(300, 50, 0.4, 9);
  auto const expected = test::reference_of(network, samples, GetParam().precision);
  auto without = options();
  without.device_memory_limit = 1;
  auto least = test::refused_limit(network, without);
  without.device_memory_limit = least;
  EXPECT_EQ(test::run_all(network, samples, without).result.activations, expected);
  without.device_memory_limit = least - least / 50;
  EXPECT_THROW(prepare(network, without), ResourceError);
  auto with = limited(options(), 1, 64 * mebibyte);
  least = test::refused_limit(network, with);
  with.device_weight_limit = least;
  EXPECT_EQ(test::run_all(network, samples, with).result.activations, expected);
  with.device_weight_limit = least - least / 50;
  EXPECT_THROW(prepare(network, with), ResourceError);
}

TEST_P(StripInference, IsAnErrorWhereCutsAreRuledOut) {
  auto const network = network_of({200, 260, 231, 190}, 0.35);
  auto tight = limited(options(), 40000, 64 * mebibyte);
  tight.formats = {FormatName::csr};
  EXPECT_GE(max_strips(prepare(network, tight)->plan({10, 100})), 2U);
  tight.cuts_layers = false;
  EXPECT_THROW(prepare(network, tight), ResourceError);
}

} // namespace
} // namespace varve
