#include "radixnet/network.hpp"

#include "core/error.hpp"
#include "radixnet/random.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <ranges>
#include <utility>

namespace varve {

namespace {

constexpr std::size_t kNeuronsPerNode = 16;
constexpr std::size_t kDegree = 2 * kNeuronsPerNode;
constexpr std::size_t kMaxNeurons = std::size_t{1} << 31U;

using InputList = std::array<NeuronIndex, kDegree>;

std::size_t require_width(std::size_t neurons) {
  if (std::has_single_bit(neurons) && neurons >= kDegree && neurons <= kMaxNeurons) return neurons;
  fail<UsageError>("a RadiX-Net cannot have {} neurons per layer (expected a power of two from {} to {})", neurons,
                   kDegree, kMaxNeurons);
}

/// The permutation of the inputs in a replica (Fisher-Yates shuffle); the identity in replica 0.
std::vector<NeuronIndex> permutation_of(std::size_t neurons, std::uint64_t seed, std::size_t replica) {
  std::vector<NeuronIndex> permutation(neurons);
  std::iota(permutation.begin(), permutation.end(), NeuronIndex{0});
  if (replica == 0) return permutation;
  RandomStream random(seed, replica);
  for (std::size_t remaining = neurons; remaining > 1; --remaining) {
    std::swap(permutation[remaining - 1], permutation[random.below(remaining)]);
  }
  return permutation;
}

/// For each node the inputs, ascending, that its 16 neurons read.
std::vector<InputList> input_lists(std::vector<NeuronIndex> const& permutation, std::size_t offset) {
  std::size_t const num_nodes = permutation.size() / kNeuronsPerNode;
  std::vector<InputList> lists(num_nodes);
  for (std::size_t node = 0; node < num_nodes; ++node) {
    std::size_t const partner = (node + offset) % num_nodes;
    for (std::size_t part = 0; part < kNeuronsPerNode; ++part) {
      lists[node][part] = permutation[node + part * num_nodes];
      lists[node][kNeuronsPerNode + part] = permutation[partner + part * num_nodes];
    }
    std::ranges::sort(lists[node]);
  }
  return lists;
}

} // namespace

double radixnet_bias(std::size_t neurons) {
  auto const official = challenge_bias(neurons);
  if (official) return *official;
  return -0.30 - 0.05 * (std::log2(static_cast<double>(neurons)) - 10.0) / 2.0;
}

RadixNet::RadixNet(std::size_t neurons, std::size_t layers, std::uint64_t seed, double bias, double cap)
    : num_neurons_(require_width(neurons)), num_layers_(layers), seed_(seed), bias_(bias), cap_(cap) {
  if (layers == 0) throw UsageError("a RadiX-Net cannot have 0 layers (expected at least 1)");
  if (!std::isfinite(bias)) fail<UsageError>("the bias is {}, expected a finite number", bias);
  if (!(cap > 0.0 && std::isfinite(cap))) fail<UsageError>("the cap is {}, expected a positive finite number", cap);
}

RadixNet::RadixNet(std::size_t neurons, std::size_t layers, std::uint64_t seed)
    : RadixNet(require_width(neurons), layers, seed, radixnet_bias(neurons)) {}

std::string RadixNet::name() const {
  return fmt::format("RadiX-Net of {} neurons and {} layers from seed {}", num_neurons_, num_layers_, seed_);
}

Layer RadixNet::layer(std::size_t number) const {
  VARVE_REQUIRE(number < num_layers_, "layer number lies outside the network");
  std::size_t const num_nodes = num_neurons_ / kNeuronsPerNode;
  auto const layers_per_replica = static_cast<std::size_t>(std::countr_zero(num_nodes));
  std::size_t const offset = std::size_t{1} << (number % layers_per_replica);
  auto const lists = input_lists(permutation_of(num_neurons_, seed_, number / layers_per_replica), offset);

  Layer layer{{num_neurons_, num_neurons_, {}, {}, {kChallengeWeight}}, {bias_}, Activation::clipped_relu(cap_)};
  auto& weights = layer.weights;
  weights.row_pointers.resize(num_neurons_ + 1);
  weights.column_indices.resize(num_neurons_ * kDegree);
  for (std::size_t output = 0; output < num_neurons_; ++output) {
    weights.row_pointers[output + 1] = (output + 1) * kDegree;
    std::ranges::copy(lists[output % num_nodes],
                      weights.column_indices.begin() + static_cast<std::ptrdiff_t>(output * kDegree));
  }
  return layer;
}

namespace {

constexpr std::size_t kMaxWidth = std::size_t{1} << 31U;

void require_widths(std::vector<std::size_t> const& widths) {
  if (widths.size() < 2) throw UsageError("a random network needs at least 1 layer");
  for (auto const width : widths) {
    if (width < 1 || width > kMaxWidth)
      fail<UsageError>("a layer cannot be {} neurons wide (expected 1 to {})", width, kMaxWidth);
  }
}

void require_pattern(RandomNetworkRecipe const& recipe) {
  if (recipe.degree.has_value() == recipe.density.has_value())
    throw UsageError("a random network has either a degree or a density");
  if (recipe.density && !(*recipe.density > 0.0 && *recipe.density <= 1.0))
    fail<UsageError>("the density is {}, expected more than 0 and at most 1", *recipe.density);
  auto const narrowest = std::ranges::min(recipe.widths | std::views::take(recipe.widths.size() - 1));
  if (recipe.degree && (*recipe.degree < 1 || *recipe.degree > narrowest))
    fail<UsageError>("the degree is {}, expected 1 to {}, the fewest inputs of a layer", *recipe.degree, narrowest);
}

void require_numbers(RandomNetworkRecipe const& recipe) {
  for (double const number : {recipe.weight.value_or(0.0), recipe.gain, recipe.lowest_bias, recipe.highest_bias}) {
    if (!std::isfinite(number)) fail<UsageError>("a weight, gain or bias is {}, expected a finite number", number);
  }
  if (recipe.lowest_bias > recipe.highest_bias)
    fail<UsageError>("the lowest bias, {}, exceeds the highest, {}", recipe.lowest_bias, recipe.highest_bias);
  if (!(recipe.cap > 0.0 && std::isfinite(recipe.cap)))
    fail<UsageError>("the cap is {}, expected a positive finite number", recipe.cap);
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
  SparseMatrix pattern{recipe.widths[number + 1], recipe.widths[number], {0}, {}, {}};
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
  Layer layer{draw_pattern(recipe_, RandomStream(recipe_.seed, 2 * number), number),
              {recipe_.lowest_bias},
              Activation::clipped_relu(recipe_.cap)};
  RandomStream random(recipe_.seed, 2 * number + 1);
  if (recipe_.weight) {
    layer.weights.values = {*recipe_.weight};
  } else {
    double const bound = recipe_.gain * std::sqrt(6.0 / mean_degree(recipe_, layer.num_inputs()));
    layer.weights.values.resize(layer.num_edges());
    for (auto& value : layer.weights.values) value = real(random, -bound, bound);
  }
  if (recipe_.lowest_bias < recipe_.highest_bias) {
    layer.bias.resize(layer.num_outputs());
    for (auto& bias : layer.bias) bias = real(random, recipe_.lowest_bias, recipe_.highest_bias);
  }
  return layer;
}

namespace {

/// The first stream of random numbers for weights. Streams for patterns have small numbers, streams for samples count
/// down from 2^64 - 1.
constexpr std::uint64_t first_stream = std::uint64_t{1} << 62U;

bool passes_inputs_on(Layer const& layer) { return layer.num_inputs() == layer.num_outputs(); }

/// A weight that is uniform with mean 0 and exact in float. place: output * inputs + input of its edge.
double draw(RandomStream const& random, double variance, std::uint64_t place) {
  double const part = std::ldexp(static_cast<double>(random.bits_at(place) >> 11U), -53); // in [0, 1)
  return static_cast<double>(static_cast<float>(std::sqrt(3.0 * variance) * (2.0 * part - 1.0)));
}

/// Replaces the weights of a layer. The weights of an output with d edges have the variance variance / d.
SparseMatrix draw_all(SparseMatrix pattern, RandomStream const& random, double variance) {
  pattern.values.resize(pattern.num_entries());
  for (std::size_t output = 0; output < pattern.num_rows; ++output) {
    auto const degree = static_cast<double>(pattern.row_size(output));
    for (auto edge = pattern.row_pointers[output]; edge < pattern.row_pointers[output + 1]; ++edge) {
      auto const place = std::uint64_t{output} * pattern.num_columns + pattern.column_indices[edge];
      pattern.values[edge] = draw(random, variance / degree, place);
    }
  }
  return pattern;
}

/// Replaces the weights of a layer and adds missing edges on the diagonal, which have weight 1. The d other edges of an
/// output have the variance variance / d.
SparseMatrix draw_beside_diagonal(SparseMatrix const& pattern, RandomStream const& random, double variance) {
  SparseMatrix matrix{pattern.num_rows, pattern.num_columns, {0}, {}, {}};
  for (std::size_t output = 0; output < pattern.num_rows; ++output) {
    auto const inputs = pattern.row_columns(output);
    auto const diagonal = static_cast<NeuronIndex>(output);
    auto const behind = std::ranges::lower_bound(inputs, diagonal);
    bool const has_diagonal = behind != inputs.end() && *behind == diagonal;
    auto const degree = static_cast<double>(inputs.size() - (has_diagonal ? 1 : 0));
    auto const append = [&](NeuronIndex input) {
      auto const place = std::uint64_t{output} * pattern.num_columns + input;
      matrix.column_indices.push_back(input);
      matrix.values.push_back(input == diagonal ? 1.0 : draw(random, variance / degree, place));
    };
    std::for_each(inputs.begin(), behind, append);
    append(diagonal);
    std::for_each(has_diagonal ? behind + 1 : behind, inputs.end(), append);
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

} // namespace

std::string to_string(InitialWeights weights) { return weights == InitialWeights::he ? "he" : "identity"; }

InitialWeights parse_initial_weights(std::string const& name) {
  for (auto const weights : {InitialWeights::he, InitialWeights::identity})
    if (name == to_string(weights)) return weights;
  fail<UsageError>("there are no initial weights '{}'; there are: he, identity", name);
}

InitialNetwork::InitialNetwork(NetworkSource const& pattern, InitialRecipe const& recipe)
    : pattern_(pattern), recipe_(recipe) {
  if (recipe_.weights == InitialWeights::he) return;
  for (std::size_t number = 0; number < pattern_.num_layers(); ++number)
    depth_ += passes_inputs_on(pattern_.layer(number)) ? 1 : 0;
  if (depth_ == 0) {
    throw UsageError("initial weights 'identity' need a layer with as many inputs as outputs, and there is none; "
                     "expected 'he'");
  }
}

std::string InitialNetwork::name() const {
  return fmt::format("initial weights '{}' of seed {} for {}", to_string(recipe_.weights), recipe_.seed,
                     pattern_.name());
}

Layer InitialNetwork::layer(std::size_t number) const {
  Layer layer = pattern_.layer(number);
  auto const& activation = number + 1 == num_layers() ? recipe_.last_activation : recipe_.activation;
  if (activation) layer.activation = *activation;
  layer.bias = {0.0};
  RandomStream const random(recipe_.seed, first_stream + number);
  if (recipe_.weights == InitialWeights::identity && passes_inputs_on(layer)) {
    layer.weights = draw_beside_diagonal(layer.weights, random, 1.0 / static_cast<double>(depth_));
  } else {
    double const slope = layer.activation.slope;
    layer.weights = draw_all(std::move(layer.weights), random, 2.0 / (1.0 + slope * slope));
  }
  return layer;
}

} // namespace varve
