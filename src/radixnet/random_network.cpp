#include "radixnet/random_network.hpp"

#include "core/error.hpp"
#include "radixnet/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <utility>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t kMaxWidth = std::size_t{1} << 31U;

void require_widths(std::vector<std::size_t> const& widths) {
  if (widths.size() < 2) throw UsageError("a random network needs at least 1 layer");
  for (auto const width : widths) {
    if (width < 1 || width > kMaxWidth)
      throw UsageError(fmt::format("a layer cannot be {} neurons wide (expected 1 to {})", width, kMaxWidth));
  }
}

void require_pattern(RandomNetworkRecipe const& recipe) {
  if (recipe.degree.has_value() == recipe.density.has_value())
    throw UsageError("a random network has either a degree or a density");
  if (recipe.density && !(*recipe.density > 0.0 && *recipe.density <= 1.0))
    throw UsageError(fmt::format("the density is {}, expected more than 0 and at most 1", *recipe.density));
  auto const narrowest = std::ranges::min(recipe.widths | std::views::take(recipe.widths.size() - 1));
  if (recipe.degree && (*recipe.degree < 1 || *recipe.degree > narrowest))
    throw UsageError(
        fmt::format("the degree is {}, expected 1 to {}, the fewest inputs of a layer", *recipe.degree, narrowest));
}

void require_numbers(RandomNetworkRecipe const& recipe) {
  for (double const number : {recipe.weight.value_or(0.0), recipe.gain, recipe.lowest_bias, recipe.highest_bias}) {
    if (!std::isfinite(number))
      throw UsageError(fmt::format("a weight, gain or bias is {}, expected a finite number", number));
  }
  if (recipe.lowest_bias > recipe.highest_bias)
    throw UsageError(
        fmt::format("the lowest bias, {}, exceeds the highest, {}", recipe.lowest_bias, recipe.highest_bias));
  if (!(recipe.cap > 0.0 && std::isfinite(recipe.cap)))
    throw UsageError(fmt::format("the cap is {}, expected a positive finite number", recipe.cap));
}

/// A random number, uniform in [low, high) and exact in float.
double real(RandomStream& random, double low, double high) {
  double const part = std::ldexp(static_cast<double>(random.bits() >> 11U), -53);
  return static_cast<double>(static_cast<float>(low + (high - low) * part));
}

/// Appends `degree` distinct inputs out of `inputs`, ascending, every such set being equally likely (Bentley and Floyd,
/// "Programming pearls: a sample of brilliance", 1987). All elements of `is_taken` are false before and after the call.
void draw_inputs(RandomStream& random, std::size_t inputs, std::size_t degree, std::vector<bool>& is_taken,
                 std::vector<NeuronIndex>& taken) {
  auto const begin = static_cast<std::ptrdiff_t>(taken.size());
  for (std::size_t bound = inputs - degree + 1; bound <= inputs; ++bound) {
    std::size_t const drawn = random.below(bound);
    std::size_t const input = is_taken[drawn] ? bound - 1 : drawn;
    is_taken[input] = true;
    taken.push_back(static_cast<NeuronIndex>(input));
  }
  std::ranges::sort(taken.begin() + begin, taken.end());
  for (auto const input : taken | std::views::drop(begin)) is_taken[input] = false;
}

/// Appends each input with this probability, ascending.
void draw_inputs(RandomStream& random, std::size_t inputs, double chance, std::vector<NeuronIndex>& taken) {
  // 2^53 for chance 1, so that every input is drawn
  auto const bound = static_cast<std::uint64_t>(std::ldexp(chance, 53));
  for (std::size_t input = 0; input < inputs; ++input) {
    if ((random.bits() >> 11U) < bound) taken.push_back(static_cast<NeuronIndex>(input));
  }
}

SparseMatrix draw_pattern(RandomNetworkRecipe const& recipe, RandomStream random, std::size_t number) {
  SparseMatrix pattern;
  pattern.num_columns = recipe.widths[number];
  pattern.num_rows = recipe.widths[number + 1];
  std::vector<bool> is_taken(pattern.num_columns, false);
  for (std::size_t output = 0; output < pattern.num_rows; ++output) {
    if (recipe.degree) {
      draw_inputs(random, pattern.num_columns, *recipe.degree, is_taken, pattern.column_indices);
    } else {
      draw_inputs(random, pattern.num_columns, *recipe.density, pattern.column_indices);
    }
    pattern.row_pointers.push_back(pattern.num_entries());
  }
  return pattern;
}

/// Mean number of inputs per output.
double mean_degree(RandomNetworkRecipe const& recipe, std::size_t inputs) {
  return recipe.degree ? static_cast<double>(*recipe.degree)
                       : std::max(1.0, *recipe.density * static_cast<double>(inputs));
}

} // namespace

RandomNetwork::RandomNetwork(RandomNetworkRecipe recipe) : recipe_(std::move(recipe)) {
  require_widths(recipe_.widths);
  require_pattern(recipe_);
  require_numbers(recipe_);
}

std::string RandomNetwork::name() const {
  auto const pattern =
      recipe_.degree ? fmt::format("degree {}", *recipe_.degree) : fmt::format("density {}", *recipe_.density);
  return fmt::format("random network of {} inputs, {} outputs, {} layers and {} from seed {}", recipe_.widths.front(),
                     recipe_.widths.back(), num_layers(), pattern, recipe_.seed);
}

Layer RandomNetwork::layer(std::size_t number) const {
  VARVE_REQUIRE(number < num_layers(), "layer number lies outside the network");
  Layer layer;
  layer.weights = draw_pattern(recipe_, RandomStream(recipe_.seed, 2 * number), number);
  layer.activation = Activation::clipped_relu(recipe_.cap);
  RandomStream random(recipe_.seed, 2 * number + 1);
  if (recipe_.weight) {
    layer.weights.values = {*recipe_.weight};
  } else {
    double const bound = recipe_.gain * std::sqrt(6.0 / mean_degree(recipe_, layer.num_inputs()));
    layer.weights.values.resize(layer.num_edges());
    for (auto& value : layer.weights.values) value = real(random, -bound, bound);
  }
  layer.bias = {recipe_.lowest_bias};
  if (recipe_.lowest_bias < recipe_.highest_bias) {
    layer.bias.resize(layer.num_outputs());
    for (auto& bias : layer.bias) bias = real(random, recipe_.lowest_bias, recipe_.highest_bias);
  }
  return layer;
}

} // namespace varve
