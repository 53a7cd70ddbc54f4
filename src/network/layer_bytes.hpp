#pragma once

#include "network/network.hpp"

#include <cstddef>

namespace varve {

/// Memory that the lists of a layer take.
inline std::size_t bytes_of(Layer const& layer) {
  auto const& weights = layer.weights;
  return weights.column_indices.size() * sizeof(NeuronIndex) + weights.values.size() * sizeof(double) +
         weights.row_pointers.size() * sizeof(EdgeOffset) + layer.bias.size() * sizeof(double);
}

} // namespace varve
