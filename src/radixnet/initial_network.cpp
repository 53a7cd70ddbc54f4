#include "radixnet/initial_network.hpp"

#include "core/error.hpp"
#include "radixnet/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace varve {
namespace {

/// The first stream of random numbers for weights. Streams for patterns have small numbers, streams for samples count
/// down from 2^64 - 1.
constexpr std::uint64_t first_stream = std::uint64_t{1} << 62U;

bool passes_inputs_on(Layer const& layer) { return layer.num_inputs() == layer.num_outputs(); }

/// Draws weights that are uniform with mean 0 and exact in float. place: output * inputs + input of an edge.
class Weights {
public:
  Weights(std::uint64_t seed, std::size_t layer) : random_(seed, first_stream + layer) {}

  double draw(double variance, std::uint64_t place) const {
    double const part = std::ldexp(static_cast<double>(random_.bits_at(place) >> 11U), -53); // in [0, 1)
    return static_cast<double>(static_cast<float>(std::sqrt(3.0 * variance) * (2.0 * part - 1.0)));
  }

private:
  RandomStream random_;
};

/// Replaces the weights of a layer. The weights of an output with d edges have the variance variance / d.
SparseMatrix draw_all(SparseMatrix pattern, Weights const& weights, double variance) {
  pattern.values.resize(pattern.num_entries());
  for (std::size_t output = 0; output < pattern.num_rows; ++output) {
    auto const degree = static_cast<double>(pattern.row_size(output));
    for (auto edge = pattern.row_pointers[output]; edge < pattern.row_pointers[output + 1]; ++edge) {
      auto const place = std::uint64_t{output} * pattern.num_columns + pattern.column_indices[edge];
      pattern.values[edge] = weights.draw(variance / degree, place);
    }
  }
  return pattern;
}

/// Replaces the weights of a layer and adds missing edges on the diagonal, which have weight 1. The d other edges of an
/// output have the variance variance / d.
SparseMatrix draw_beside_diagonal(SparseMatrix const& pattern, Weights const& weights, double variance) {
  SparseMatrix matrix;
  matrix.num_rows = pattern.num_rows;
  matrix.num_columns = pattern.num_columns;
  for (std::size_t output = 0; output < pattern.num_rows; ++output) {
    auto const inputs = pattern.row_columns(output);
    auto const diagonal = static_cast<NeuronIndex>(output);
    auto const behind = std::ranges::lower_bound(inputs, diagonal);
    bool const has_diagonal = behind != inputs.end() && *behind == diagonal;
    auto const degree = static_cast<double>(inputs.size() - (has_diagonal ? 1 : 0));
    auto const append = [&](NeuronIndex input) {
      auto const place = std::uint64_t{output} * pattern.num_columns + input;
      matrix.column_indices.push_back(input);
      matrix.values.push_back(input == diagonal ? 1.0 : weights.draw(variance / degree, place));
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
  throw UsageError(fmt::format("there are no initial weights '{}'; there are: he, identity", name));
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
  Weights const weights(recipe_.seed, number);
  if (recipe_.weights == InitialWeights::identity && passes_inputs_on(layer)) {
    layer.weights = draw_beside_diagonal(layer.weights, weights, 1.0 / static_cast<double>(depth_));
  } else {
    double const slope = layer.activation.slope;
    layer.weights = draw_all(std::move(layer.weights), weights, 2.0 / (1.0 + slope * slope));
  }
  return layer;
}

} // namespace varve
