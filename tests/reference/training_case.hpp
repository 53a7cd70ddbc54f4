#pragma once

#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "radixnet/random.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve::test {

/// A network, a mini-batch and its answers.
struct TrainingCase {
  Network network;
  SampleSet samples;
  Answers labels;
  Answers targets;

  /// Targets from 0 to 1.
  Answers probabilities() const {
    auto answers = targets;
    for (auto& value : answers.values.values) value = std::abs(value);
    return answers;
  }
  /// Answers with weights of the samples, some of which are 0 or 1.
  static Answers weighted(Answers answers) {
    for (std::size_t sample = 0; sample < answers.num_samples(); ++sample)
      answers.weights.push_back(sample % 5 == 4 ? 1.0 : static_cast<double>(sample * sample % 11) / 3.0);
    return answers;
  }
  /// Labels of the two classes that the loss logistic distinguishes with one output.
  Answers labels_of_two() const {
    Answers answers;
    for (std::size_t sample = 0; sample < labels.num_samples(); ++sample)
      answers.labels.push_back(static_cast<NeuronIndex>(sample * sample / 3 % 2));
    return answers;
  }
};

/// What a training case is made of.
struct TrainingShape {
  std::vector<std::size_t> widths; ///< inputs, then the outputs of each layer
  std::size_t num_samples;
  double density = 0.4;
  std::vector<Activation> activations = {
      Activation::identity()}; ///< of the layers, cyclically; the last layer has the last one
  std::uint64_t seed = 1;
};

inline double draw_real(RandomStream& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.bits() >> 11U) * 0x1p-53;
}

/// Random entries; some rows and columns are empty.
inline SparseMatrix draw_matrix(RandomStream& random, std::size_t rows, std::size_t columns, double density,
                                double largest) {
  SparseMatrix matrix;
  matrix.num_rows = rows;
  matrix.num_columns = columns;
  bool const has_empty_rows = rows > 3 && columns > 3;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      if (draw_real(random, 0.0, 1.0) >= density) continue;
      double const value = draw_real(random, -largest, largest);
      if (has_empty_rows && (row % 7 == 3 || column % 9 == 2)) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      matrix.values.push_back(value);
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

inline TrainingCase training_case(TrainingShape const& shape) {
  RandomStream random(shape.seed, 7);
  std::vector<Layer> layers;
  std::size_t const num_layers = shape.widths.size() - 1;
  for (std::size_t number = 0; number < num_layers; ++number) {
    Layer layer;
    double const degree = std::max(1.0, shape.density * static_cast<double>(shape.widths[number]));
    layer.weights =
        draw_matrix(random, shape.widths[number + 1], shape.widths[number], shape.density, 2.0 / std::sqrt(degree));
    layer.bias.assign(number % 2 == 0 ? shape.widths[number + 1] : 1, 0.0);
    for (auto& bias : layer.bias) bias = draw_real(random, -0.3, 0.3);
    layer.activation =
        number + 1 == num_layers ? shape.activations.back() : shape.activations[number % shape.activations.size()];
    layers.push_back(std::move(layer));
  }
  SampleSet const samples{draw_matrix(random, shape.num_samples, shape.widths.front(), 0.6, 1.5), 0};
  Answers labels;
  for (std::size_t sample = 0; sample < shape.num_samples; ++sample)
    labels.labels.push_back(static_cast<NeuronIndex>(random.below(shape.widths.back())));
  Answers targets;
  targets.values = draw_matrix(random, shape.num_samples, shape.widths.back(), 0.8, 1.0);
  return {Network(std::move(layers)), samples, labels, targets};
}

} // namespace varve::test
