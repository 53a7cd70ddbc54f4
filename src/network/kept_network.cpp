#include "network/kept_network.hpp"

#include "network/layer_bytes.hpp"

namespace varve {

KeptNetwork::KeptNetwork(NetworkSource const& source, std::size_t bytes)
    : source_(source), bytes_left_(bytes), layers_(source.num_layers()) {}

Layer KeptNetwork::layer(std::size_t number) const {
  {
    std::lock_guard const lock(guard_);
    if (layers_.at(number)) return *layers_[number];
  }
  Layer layer = source_.layer(number);
  std::lock_guard const lock(guard_);
  std::size_t const bytes = bytes_of(layer);
  if (!layers_[number] && bytes <= bytes_left_) {
    bytes_left_ -= bytes;
    layers_[number] = layer;
  }
  return layer;
}

} // namespace varve
