#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace varve::test {

/// Each output reads the input of its own number with this weight.
inline Layer diagonal_layer(std::size_t neurons, double weight, std::vector<double> bias, Activation activation) {
  Layer layer;
  layer.weights.num_rows = neurons;
  layer.weights.num_columns = neurons;
  layer.weights.values = {weight};
  for (std::size_t neuron = 0; neuron < neurons; ++neuron) {
    layer.weights.column_indices.push_back(static_cast<NeuronIndex>(neuron));
    layer.weights.row_pointers.push_back(neuron + 1);
  }
  layer.bias = std::move(bias);
  layer.activation = activation;
  return layer;
}

/// Samples of which number s has the value s / 10 in every neuron; sample 0 is empty.
inline SampleSet ramp_samples(std::size_t num_samples, std::size_t neurons) {
  SampleSet samples;
  samples.matrix.num_rows = num_samples;
  samples.matrix.num_columns = neurons;
  for (std::size_t sample = 0; sample < num_samples; ++sample) {
    for (std::size_t neuron = 0; neuron < neurons && sample > 0; ++neuron) {
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
      samples.matrix.values.push_back(static_cast<double>(sample) / 10.0);
    }
    samples.matrix.row_pointers.push_back(samples.matrix.num_entries());
  }
  return samples;
}

} // namespace varve::test
