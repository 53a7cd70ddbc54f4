#pragma once

#include <cstddef>

namespace varve::test {

/// Place of an activation in a panel of tiles [neuron][sample].
inline std::size_t place_in(std::size_t slot, std::size_t neuron, std::size_t num_neurons, std::size_t tile_samples) {
  return slot / tile_samples * num_neurons * tile_samples + neuron * tile_samples + slot % tile_samples;
}

} // namespace varve::test
