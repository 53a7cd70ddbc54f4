#pragma once

#include "network/network.hpp"
#include "radixnet/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace varve::test {

/// Output j reads inputs (j + stride) mod num_inputs for each stride; weights of either sign, biases of their own.
inline Layer stride_layer(std::size_t num_outputs, std::size_t num_inputs, std::vector<std::size_t> const& strides,
                          RandomStream& random) {
  Layer layer;
  layer.weights.num_rows = num_outputs;
  layer.weights.num_columns = num_inputs;
  layer.bias.clear();
  auto const real = [&](double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(random.bits() >> 11U), -53);
  };
  for (std::size_t output = 0; output < num_outputs; ++output) {
    std::vector<NeuronIndex> inputs;
    for (std::size_t const stride : strides) inputs.push_back(static_cast<NeuronIndex>((output + stride) % num_inputs));
    std::ranges::sort(inputs);
    inputs.erase(std::ranges::unique(inputs).begin(), inputs.end());
    for (NeuronIndex const input : inputs) {
      layer.weights.column_indices.push_back(input);
      layer.weights.values.push_back(real(-0.4, 1.0));
    }
    layer.weights.row_pointers.push_back(layer.weights.num_entries());
    layer.bias.push_back(real(-0.1, 0.02));
  }
  layer.activation = {ActivationKind::clipped_relu, 8.0};
  return layer;
}

/// Layers of two edges per neuron with strides 1, 2, 4, ..., like those of a fast Fourier transform: the last ones fall
/// apart into components, the first ones do not.
inline std::vector<Layer> butterfly_layers(std::size_t width, std::size_t num_layers, RandomStream& random) {
  std::vector<Layer> layers;
  std::size_t stride = 1;
  for (std::size_t i = 0; i < num_layers; ++i) {
    layers.push_back(stride_layer(width, width, {0, stride}, random));
    stride = stride * 2 < width ? stride * 2 : 1;
  }
  return layers;
}

} // namespace varve::test
