#include "radixnet/network.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "network/analysis.hpp"
#include "network/network.hpp"
#include "radixnet/images.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace varve {
namespace {

RandomNetworkRecipe of_degree(std::vector<std::size_t> widths, std::size_t degree, std::uint64_t seed = 1) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.degree = degree;
  recipe.seed = seed;
  return recipe;
}

RandomNetworkRecipe of_density(std::vector<std::size_t> widths, double density, std::uint64_t seed = 1) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.density = density;
  recipe.seed = seed;
  return recipe;
}

std::vector<std::size_t> equal_widths(std::size_t neurons, std::size_t layers) {
  return std::vector<std::size_t>(layers + 1, neurons);
}

/// A network of the challenge's weights and cap on a random pattern.
RandomNetworkRecipe challenge_like(std::size_t neurons, std::size_t layers) {
  auto recipe = of_degree(equal_widths(neurons, layers), 32);
  recipe.weight = kChallengeWeight;
  recipe.lowest_bias = recipe.highest_bias = -0.19; // -0.3 is for a pattern that keeps an image's neighbours together
  recipe.cap = kChallengeCap;
  return recipe;
}

TEST(RandomNetwork, EveryOutputReadsAsManyInputsAsTheDegreeSays) {
  for (std::size_t const degree : {1U, 5U, 32U, 40U}) {
    auto const network = load(RandomNetwork(of_degree({40, 100, 40, 64, 7}, degree)));
    ASSERT_EQ(network.layers().size(), 4U);
    EXPECT_EQ(network.num_inputs(), 40U);
    EXPECT_EQ(network.num_outputs(), 7U);
    for (auto const& layer : network.layers()) {
      auto const analysis = analyse(layer);
      EXPECT_EQ(analysis.min_degree, degree);
      EXPECT_EQ(analysis.max_degree, degree);
      EXPECT_EQ(layer.bias.size(), layer.num_outputs());
    }
  }
}

TEST(RandomNetwork, EveryInputIsReadAboutAsOften) {
  auto const layer = RandomNetwork(of_degree({50, 20000}, 7)).layer(0);
  std::vector<int> reads(50, 0);
  for (auto const input : layer.weights.column_indices) ++reads[input];
  double const expected = 20000.0 * 7 / 50;
  for (int const count : reads) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
}

TEST(RandomNetwork, HasAboutAsManyEdgesAsTheDensitySays) {
  for (double const density : {0.1, 0.6}) {
    auto const layer = RandomNetwork(of_density({300, 200}, density)).layer(0);
    EXPECT_NEAR(static_cast<double>(layer.num_edges()) / 60000.0, density, 0.02);
  }
  EXPECT_EQ(RandomNetwork(of_density({30, 20}, 1.0)).layer(0).num_edges(), 600U);
}

TEST(RandomNetwork, DependsOnNothingButTheSeed) {
  RandomNetwork const network(of_density(equal_widths(64, 20), 0.3, 7));
  auto const whole = load(network);
  std::vector<Layer> backwards(20);
  for_each_on_host_threads(20, [&](std::size_t index) { backwards[19 - index] = network.layer(19 - index); });
  EXPECT_EQ(backwards, whole.layers());
  EXPECT_EQ(RandomNetwork(of_density(equal_widths(64, 40), 0.3, 7)).layer(19), network.layer(19));
  EXPECT_NE(RandomNetwork(of_density(equal_widths(64, 20), 0.3, 8)).layer(0), network.layer(0));
  EXPECT_NE(network.layer(1), network.layer(0));
}

TEST(RandomNetwork, IsTheSameOnEveryPlatform) {
  auto const layer = RandomNetwork(of_degree({1024, 1024}, 4)).layer(0);
  auto const inputs = layer.weights.row_columns(0);
  EXPECT_EQ((std::vector<NeuronIndex>(inputs.begin(), inputs.end())), (std::vector<NeuronIndex>{354, 492, 520, 874}));
  EXPECT_FLOAT_EQ(static_cast<float>(layer.weights.values[0]), 0.701456F / 1.2F);
  EXPECT_FLOAT_EQ(static_cast<float>(layer.bias[1023]), -0.0905349F);
}

TEST(RandomNetwork, HasOnePatternForAllWeights) {
  auto recipe = challenge_like(1024, 2);
  auto const like_challenge = RandomNetwork(recipe).layer(1);
  recipe.weight.reset();
  auto const own_weights = RandomNetwork(recipe).layer(1);
  EXPECT_EQ(like_challenge.weights.column_indices, own_weights.weights.column_indices);
  EXPECT_EQ(like_challenge.weights.values, std::vector{kChallengeWeight});
  EXPECT_EQ(like_challenge.bias, std::vector{-0.19});
  EXPECT_EQ(own_weights.weights.values.size(), own_weights.num_edges());
}

TEST(RandomNetwork, WeightsAndBiasesAreExactInFloatAndWithinTheirBounds) {
  auto recipe = of_degree({128, 500}, 24);
  recipe.gain = 2.0;
  recipe.lowest_bias = -0.5;
  recipe.highest_bias = 0.25;
  auto const layer = RandomNetwork(recipe).layer(0);
  for (double const value : layer.weights.values) {
    EXPECT_EQ(value, static_cast<double>(static_cast<float>(value)));
    EXPECT_LE(std::abs(value), 1.0);
  }
  EXPECT_LT(std::ranges::min(layer.weights.values), -0.99);
  EXPECT_GT(std::ranges::max(layer.weights.values), 0.99);
  EXPECT_GE(std::ranges::min(layer.bias), -0.5);
  EXPECT_LE(std::ranges::max(layer.bias), 0.25);
  EXPECT_LT(std::ranges::min(layer.bias), -0.4);
  EXPECT_GT(std::ranges::max(layer.bias), 0.2);
}

TEST(RandomNetwork, SamplesStayAliveHoweverDeepItIs) {
  auto const images = digit_images(1024, 20, 1);
  EXPECT_EQ(categories(infer<float>(RandomNetwork(of_degree(equal_widths(1024, 120), 32)), images)).size(), 20U);
  auto without_bias = of_degree(equal_widths(1024, 120), 32);
  without_bias.gain = 1.2;
  without_bias.lowest_bias = without_bias.highest_bias = 0.0;
  EXPECT_EQ(categories(infer<float>(RandomNetwork(without_bias), images)).size(), 20U);
  auto const samples = random_samples(256, 20, 0.5, 1);
  auto const last = infer<float>(RandomNetwork(of_density(equal_widths(256, 30), 0.6)), samples);
  EXPECT_EQ(categories(last).size(), 20U);
  EXPECT_GT(last.matrix.num_entries(), 20U * 256 / 4) << "and not by a thread";
  EXPECT_LT(last.matrix.num_entries(), 20U * 256 * 3 / 4);
}

TEST(RandomNetwork, SamplesDieAsInTheChallengeWithItsWeights) {
  auto const alive = categories(infer<float>(RandomNetwork(challenge_like(1024, 120)), digit_images(1024, 300, 1)));
  EXPECT_GE(alive.size(), 1U);
  EXPECT_LE(alive.size(), 30U);
}

TEST(RandomNetwork, RefusesWhatMakesNoNetwork) {
  auto const good = of_degree({8, 8, 8}, 4);
  auto const refuses = [&](auto const& change) {
    auto recipe = good;
    change(recipe);
    EXPECT_THROW(RandomNetwork{recipe}, UsageError);
  };
  refuses([](auto& recipe) { recipe.widths = {8}; });
  refuses([](auto& recipe) { recipe.widths = {8, 0, 8}; });
  refuses([](auto& recipe) { recipe.widths = {8, 3, 8}; });
  refuses([](auto& recipe) { recipe.degree = 0; });
  refuses([](auto& recipe) { recipe.degree.reset(); });
  refuses([](auto& recipe) { recipe.density = 0.5; });
  refuses([](auto& recipe) { recipe.gain = std::numeric_limits<double>::infinity(); });
  refuses([](auto& recipe) { recipe.weight = std::nan(""); });
  refuses([](auto& recipe) { recipe.lowest_bias = 1.0; });
  refuses([](auto& recipe) { recipe.cap = 0.0; });
  for (double const density : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_THROW(RandomNetwork{of_density({8, 8}, density)}, UsageError);
  }
  EXPECT_NO_THROW(RandomNetwork{good});
  EXPECT_THROW(RandomNetwork(good).layer(2), std::logic_error);
}

} // namespace
} // namespace varve
