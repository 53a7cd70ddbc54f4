#include "apps/benchmark_cases.hpp"

#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace varve {
namespace {

constexpr std::uint64_t seed = 1;
constexpr std::size_t challenge_degree = 32;
/// The challenge's own bias keeps no sample alive where an image's neighbours part ways; this one about as many.
constexpr double random_pattern_bias = -0.19;

std::vector<std::string> const none_and_auto = {"none", "auto"};
std::vector<std::string> const only_auto = {"auto"};

/// A network of the challenge and images like its own.
BenchmarkCase radixnet(std::size_t neurons, std::size_t layers, std::size_t images) {
  return {fmt::format("radixnet-{}x{}", neurons, layers),
          "the challenge's pattern and weights, images of digits, generated",
          [=] { return std::make_shared<RadixNet const>(neurons, layers, seed); },
          [=] { return digit_images(neurons, images, seed); },
          {},
          none_and_auto};
}

RandomNetworkRecipe recipe_of(std::vector<std::size_t> widths) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.seed = seed;
  return recipe;
}

std::function<std::shared_ptr<NetworkSource const>()> network_of(RandomNetworkRecipe const& recipe) {
  return [recipe] { return std::make_shared<RandomNetwork const>(recipe); };
}

/// The challenge's weights, cap and degree on a random pattern, or weights and biases of their own.
BenchmarkCase random_pattern(std::size_t neurons, std::size_t layers, std::size_t images, bool has_own_weights) {
  auto recipe = recipe_of(std::vector<std::size_t>(layers + 1, neurons));
  recipe.degree = challenge_degree;
  if (!has_own_weights) {
    recipe.weight = 1.0 / 16.0;
    recipe.lowest_bias = recipe.highest_bias = random_pattern_bias;
    recipe.cap = 32.0;
  }
  return {fmt::format("{}-{}x{}", has_own_weights ? "own-weights" : "random", neurons, layers),
          has_own_weights ? "random pattern of 32 inputs an output, own weights and biases; all samples stay alive"
                          : "random pattern of 32 inputs an output, the challenge's weights; most samples die",
          network_of(recipe),
          [=] { return digit_images(neurons, images, seed); },
          {},
          has_own_weights ? only_auto : none_and_auto};
}

/// A network like trained ones: random weights at this density, a bias per neuron, real inputs.
BenchmarkCase trained(std::vector<std::size_t> const& widths, double density, std::vector<std::size_t> counts) {
  auto recipe = recipe_of(widths);
  recipe.density = density;
  std::string shape;
  bool const is_square = std::vector<std::size_t>(widths.size(), widths.front()) == widths;
  if (is_square) shape = fmt::format("{}x{}", widths.front(), widths.size() - 1);
  for (auto const width : is_square ? std::vector<std::size_t>{} : widths)
    shape += (shape.empty() ? "" : "-") + std::to_string(width);
  std::size_t const most = counts.back();
  return {fmt::format("trained-{}-{}", shape, density),
          "random edges of this density, own weights and biases, real inputs of which half are nonzero",
          network_of(recipe),
          [inputs = widths.front(), most] { return random_samples(inputs, most, 0.5, seed); },
          std::move(counts),
          only_auto};
}

std::vector<std::size_t> square(std::size_t neurons, std::size_t layers) {
  return std::vector<std::size_t>(layers + 1, neurons);
}

} // namespace

std::vector<std::string> suite_names() { return {"quick", "challenge", "general", "trained"}; }

std::vector<BenchmarkCase> cases_of(std::string const& suite) {
  if (suite == "quick") {
    return {radixnet(1024, 120, 10000), random_pattern(1024, 30, 5000, false), random_pattern(1024, 30, 5000, true),
            trained(square(256, 12), 0.6, {1, 64, 1000}), trained({784, 2000, 1000, 10}, 0.1, {1, 64, 1000})};
  }
  if (suite == "challenge")
    return {radixnet(1024, 120, 60000), radixnet(4096, 120, 60000), radixnet(16384, 120, 60000)};
  if (suite == "general") {
    return {random_pattern(1024, 120, 60000, false),
            random_pattern(1024, 120, 60000, true),
            random_pattern(4096, 60, 20000, true),
            random_pattern(65536, 12, 2000, true),
            trained({784, 2000, 1000, 500, 10}, 0.1, {20000}),
            trained(square(1024, 30), 0.3, {20000})};
  }
  if (suite == "trained") {
    std::vector<std::size_t> const counts = {1, 64, 1000, 10000};
    return {trained(square(256, 12), 0.6, counts), trained(square(1024, 30), 0.1, counts),
            trained({784, 512, 512, 10}, 0.05, counts), trained(square(4096, 6), 0.01, counts)};
  }
  return {};
}

} // namespace varve
