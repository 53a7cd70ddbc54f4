#pragma once

#include "io/challenge.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace varve::test {

enum class Values { one_for_all, floats, doubles };

using Generator = std::mt19937_64;

/// A matrix whose entries are each there with the given probability; row 0 is empty.
inline SparseMatrix random_matrix(Generator& generator, std::size_t num_rows, std::size_t num_columns, double density,
                                  Values values) {
  std::bernoulli_distribution is_stored(density);
  std::uniform_real_distribution<double> value(-2.0, 2.0);
  SparseMatrix matrix;
  matrix.num_rows = num_rows;
  matrix.num_columns = num_columns;
  for (std::size_t row = 0; row < num_rows; ++row) {
    for (std::size_t column = 0; column < num_columns; ++column) {
      if (row == 0 || !is_stored(generator)) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      auto const drawn = value(generator);
      matrix.values.push_back(values == Values::doubles  ? drawn
                              : values == Values::floats ? double(float(drawn))
                                                         : 0.0625);
    }
    matrix.row_pointers.push_back(matrix.column_indices.size());
  }
  make_iso_if_equal(matrix);
  return matrix;
}

/// A network like the challenge's: square, one bias, clipped relu.
inline Network random_challenge_network(std::uint64_t seed, std::size_t neurons, std::size_t num_layers,
                                        Values values) {
  Generator generator(seed);
  std::vector<Layer> layers;
  for (std::size_t number = 0; number < num_layers; ++number) {
    layers.push_back(
        {random_matrix(generator, neurons, neurons, 0.2, values), {-0.25}, Activation::clipped_relu(32.0)});
  }
  return Network(std::move(layers));
}

/// The options that random_challenge_network() needs when its text files are opened.
inline ChallengeOptions with_bias() {
  ChallengeOptions options;
  options.bias = -0.25;
  return options;
}

/// A network of any shape: rectangular layers, one bias or many, all activations, all kinds of values.
inline Network random_network(std::uint64_t seed) {
  Generator generator(seed);
  std::uniform_int_distribution<std::size_t> width(1, 400);
  std::uniform_int_distribution<int> choice(0, 2);
  std::normal_distribution<double> bias;
  std::vector<Layer> layers;
  auto num_inputs = width(generator);
  for (std::size_t number = 0; number < 1 + seed % 5; ++number) {
    auto const num_outputs = width(generator);
    Layer layer;
    layer.weights = random_matrix(generator, num_outputs, num_inputs, 0.1, static_cast<Values>(choice(generator)));
    layer.bias.resize(choice(generator) == 0 ? 1 : num_outputs);
    for (auto& value : layer.bias) value = bias(generator);
    Activation const activations[] = {Activation::identity(), Activation::relu(), Activation::clipped_relu(1.5)};
    layer.activation = activations[choice(generator)];
    layers.push_back(std::move(layer));
    num_inputs = num_outputs;
  }
  return Network(std::move(layers));
}

inline SampleSet random_samples(std::uint64_t seed, std::size_t num_samples, std::size_t neurons, Values values) {
  Generator generator(seed);
  return {random_matrix(generator, num_samples, neurons, 0.3, values), 0};
}

} // namespace varve::test
