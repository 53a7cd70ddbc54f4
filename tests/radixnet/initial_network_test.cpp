#include "radixnet/network.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "network/analysis.hpp"
#include "passes/pruned_network.hpp"
#include "radixnet/images.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

Network pattern_of(std::vector<std::size_t> widths, double density) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.density = density;
  return load(RandomNetwork(recipe));
}

InitialRecipe recipe_of(InitialWeights weights, std::uint64_t seed = 1) {
  InitialRecipe recipe;
  recipe.weights = weights;
  recipe.activation = Activation::relu();
  recipe.last_activation = Activation::identity();
  recipe.seed = seed;
  return recipe;
}

double mean_square(std::vector<double> const& numbers) {
  double sum = 0.0;
  for (double const number : numbers) sum += number * number;
  return sum / static_cast<double>(numbers.size());
}

double mean(std::vector<double> const& numbers) {
  double sum = 0.0;
  for (double const number : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

/// The weights of a layer, each times the square root of the number of edges of its output.
std::vector<double> scaled_weights(SparseMatrix const& matrix) {
  std::vector<double> numbers;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (auto edge = matrix.row_pointers[row]; edge < matrix.row_pointers[row + 1]; ++edge)
      numbers.push_back(matrix.value(edge) * std::sqrt(static_cast<double>(matrix.row_size(row))));
  }
  return numbers;
}

TEST(InitialNetwork, HeKeepsThePatternAndScalesByDegree) {
  auto const pattern = pattern_of({784, 512, 512, 10}, 0.1);
  auto const network = load(InitialNetwork(pattern, recipe_of(InitialWeights::he)));
  for (std::size_t number = 0; number < 3; ++number) {
    auto const& layer = network.layers()[number];
    EXPECT_EQ(layer.weights.row_pointers, pattern.layers()[number].weights.row_pointers);
    EXPECT_EQ(layer.weights.column_indices, pattern.layers()[number].weights.column_indices);
    EXPECT_EQ(layer.bias, std::vector{0.0});
    EXPECT_EQ(layer.activation, number == 2 ? Activation::identity() : Activation::relu());
    auto const numbers = scaled_weights(layer.weights);
    double const variance = number == 2 ? 1.0 : 2.0;
    auto const count = static_cast<double>(numbers.size());
    EXPECT_NEAR(mean(numbers), 0.0, 5 * std::sqrt(variance / count));
    EXPECT_NEAR(mean_square(numbers), variance,
                5 * variance * std::sqrt(0.8 / count)); // 0.8: of squares of uniform numbers
    EXPECT_LE(std::ranges::max(numbers), std::sqrt(3 * variance) * 1.0000001);
    EXPECT_GT(std::ranges::max(numbers), 0.95 * std::sqrt(3 * variance));
    EXPECT_LT(std::ranges::min(numbers), -0.95 * std::sqrt(3 * variance));
    for (double const weight : layer.weights.values) EXPECT_EQ(weight, static_cast<double>(static_cast<float>(weight)));
  }
}

TEST(InitialNetwork, HeFollowsTheSlopeBelowZero) {
  auto const pattern = pattern_of({300, 300, 300}, 0.5);
  for (double const slope : {0.01, 0.5}) {
    auto recipe = recipe_of(InitialWeights::he);
    recipe.activation = Activation::leaky_relu(slope);
    recipe.last_activation = Activation::tanh();
    auto const network = load(InitialNetwork(pattern, recipe));
    EXPECT_NEAR(mean_square(scaled_weights(network.layers()[0].weights)), 2.0 / (1.0 + slope * slope), 0.05);
    EXPECT_NEAR(mean_square(scaled_weights(network.layers()[1].weights)), 1.0, 0.025);
  }
}

TEST(InitialNetwork, HeKeepsTheSizeOfActivations) {
  auto const pattern = pattern_of(std::vector<std::size_t>(21, 400), 0.1);
  auto recipe = recipe_of(InitialWeights::he);
  recipe.last_activation.reset(); // the pattern's: a clipped ReLU, whose cap is large here
  auto layers = load(InitialNetwork(pattern, recipe)).layers();
  for (auto& layer : layers) layer.activation = Activation::relu();
  auto const samples = random_samples(400, 20, 1.0, 1);
  auto const last = infer<double>(Network(std::move(layers)), samples);
  double const ratio = mean_square(last.matrix.values) * static_cast<double>(last.matrix.num_entries()) /
                       (mean_square(samples.matrix.values) * static_cast<double>(samples.matrix.num_entries()));
  EXPECT_GT(ratio, 0.2); // after 20 layers; with variance 1 / degree it would be 1e-6
  EXPECT_LT(ratio, 5.0);
}

TEST(InitialNetwork, IdentityPassesInputsOnInSquareLayers) {
  auto const pattern = pattern_of({50, 200, 200, 200, 200, 10}, 0.1);
  auto const network = load(InitialNetwork(pattern, recipe_of(InitialWeights::identity)));
  auto const he = load(InitialNetwork(pattern, recipe_of(InitialWeights::he)));
  EXPECT_EQ(network.layers()[0], he.layers()[0]);
  EXPECT_EQ(network.layers()[4], he.layers()[4]);
  for (std::size_t number = 1; number < 4; ++number) {
    auto const& before = pattern.layers()[number].weights;
    auto const& after = network.layers()[number].weights;
    require_valid(after, "layer");
    std::vector<double> others;
    EdgeOffset added = 0;
    for (std::size_t row = 0; row < 200; ++row) {
      auto const inputs = before.row_columns(row);
      std::vector<NeuronIndex> expected(inputs.begin(), inputs.end());
      bool const has_diagonal = std::ranges::binary_search(expected, static_cast<NeuronIndex>(row));
      if (!has_diagonal) expected.push_back(static_cast<NeuronIndex>(row));
      std::ranges::sort(expected);
      added += has_diagonal ? 0 : 1;
      auto const found = after.row_columns(row);
      EXPECT_EQ((std::vector<NeuronIndex>(found.begin(), found.end())), expected);
      for (std::size_t place = 0; place < found.size(); ++place) {
        double const weight = after.values[after.row_pointers[row] + place];
        if (found[place] == row) {
          EXPECT_EQ(weight, 1.0);
        } else {
          others.push_back(weight * std::sqrt(static_cast<double>(expected.size() - 1)));
        }
      }
    }
    EXPECT_GT(added, 0U);
    EXPECT_LT(added, 200U);
    auto const count = static_cast<double>(others.size());
    EXPECT_NEAR(mean_square(others), 1.0 / 3.0, 5.0 / 3.0 * std::sqrt(0.8 / count)); // 3 such layers
    EXPECT_NEAR(mean(others), 0.0, 5 * std::sqrt(1.0 / 3.0 / count));
  }
}

TEST(InitialNetwork, IdentityOfEdgelessLayersIsTheDiagonal) {
  Network const pattern({{{3, 3, {0, 0, 0, 0}, {}, {}}, {7.0}, Activation::relu()}});
  auto const layer = InitialNetwork(pattern, recipe_of(InitialWeights::identity)).layer(0);
  EXPECT_EQ(layer.weights, (SparseMatrix{3, 3, {0, 1, 2, 3}, {0, 1, 2}, {1.0, 1.0, 1.0}}));
  auto const empty = InitialNetwork(pattern, recipe_of(InitialWeights::he)).layer(0);
  EXPECT_EQ(empty.weights.num_entries(), 0U);
  EXPECT_EQ(empty.bias, std::vector{0.0});
}

TEST(InitialNetwork, DependsOnNothingButTheSeed) {
  auto const pattern = pattern_of({64, 64, 64, 64}, 0.3);
  for (auto const weights : {InitialWeights::he, InitialWeights::identity}) {
    InitialNetwork const network(pattern, recipe_of(weights, 7));
    auto const whole = load(network);
    std::vector<Layer> backwards(3);
    for_each_on_host_threads(3, [&](std::size_t index) { backwards[2 - index] = network.layer(2 - index); });
    EXPECT_EQ(backwards, whole.layers());
    EXPECT_NE(InitialNetwork(pattern, recipe_of(weights, 8)).layer(0), whole.layers()[0]);
    EXPECT_NE(whole.layers()[0].weights.values, whole.layers()[1].weights.values);
  }
}

/// The random number of an edge: its weight without its scale.
std::map<std::pair<std::size_t, NeuronIndex>, double> numbers_of(SparseMatrix const& matrix) {
  std::map<std::pair<std::size_t, NeuronIndex>, double> numbers;
  auto const scaled = scaled_weights(matrix);
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (auto edge = matrix.row_pointers[row]; edge < matrix.row_pointers[row + 1]; ++edge)
      numbers[{row, matrix.column_indices[edge]}] = scaled[edge];
  }
  return numbers;
}

TEST(InitialNetwork, SharedEdgesShareTheirNumber) {
  auto const dense = pattern_of({40, 30}, 1.0);
  auto const sparse = load(PrunedNetwork(dense, 0.2, PruneScope::layer));
  auto const all = numbers_of(InitialNetwork(dense, recipe_of(InitialWeights::he)).layer(0).weights);
  auto const some = numbers_of(InitialNetwork(sparse, recipe_of(InitialWeights::he)).layer(0).weights);
  ASSERT_EQ(some.size(), 240U);
  for (auto const& [place, number] : some) EXPECT_NEAR(number, all.at(place), 1e-6);
}

TEST(InitialNetwork, NumbersDoNotFollowFromThePattern) {
  // Of the same seed, both draw; the numbers of edges must not be those that decided which edges there are.
  auto const numbers =
      scaled_weights(InitialNetwork(pattern_of({1000, 300}, 0.05), recipe_of(InitialWeights::he)).layer(0).weights);
  EXPECT_NEAR(mean(numbers), 0.0, 0.05);
}

TEST(InitialNetwork, IsTheSameOnEveryPlatform) {
  auto const layer = InitialNetwork(pattern_of({4, 4}, 1.0), recipe_of(InitialWeights::he)).layer(0);
  EXPECT_FLOAT_EQ(static_cast<float>(layer.weights.values[0]), -0.344535798F);
  EXPECT_FLOAT_EQ(static_cast<float>(layer.weights.values[15]), 0.163441554F);
}

TEST(InitialNetwork, ActivationsStayWithoutOthers) {
  auto const pattern = pattern_of({8, 8, 8}, 1.0);
  InitialRecipe recipe;
  EXPECT_EQ(InitialNetwork(pattern, recipe).layer(0).activation, Activation::clipped_relu(1.0));
  recipe.activation = Activation::sigmoid();
  EXPECT_EQ(InitialNetwork(pattern, recipe).layer(0).activation, Activation::sigmoid());
  EXPECT_EQ(InitialNetwork(pattern, recipe).layer(1).activation, Activation::clipped_relu(1.0));
}

TEST(InitialNetwork, RefusesIdentityWithoutSquareLayers) {
  auto const pattern = pattern_of({8, 7, 6}, 1.0);
  EXPECT_THROW(InitialNetwork(pattern, recipe_of(InitialWeights::identity)), UsageError);
  EXPECT_NO_THROW(InitialNetwork(pattern, recipe_of(InitialWeights::he)));
  EXPECT_THROW(parse_initial_weights("xavier"), UsageError);
  EXPECT_EQ(parse_initial_weights("identity"), InitialWeights::identity);
  EXPECT_EQ(to_string(parse_initial_weights("he")), "he");
}

} // namespace
} // namespace varve
