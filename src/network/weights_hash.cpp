#include "network/weights_hash.hpp"

#include "network/activations.hpp"

#include <bit>

namespace varve {

std::uint64_t weights_hash(Network const& network) {
  std::uint64_t sum = 0;
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    auto const& layer = network.layers()[number];
    auto const& weights = layer.weights;
    for (std::size_t output = 0; output < layer.num_outputs(); ++output) {
      for (EdgeOffset edge = weights.row_pointers[output]; edge < weights.row_pointers[output + 1]; ++edge) {
        sum += activation_fingerprint(2 * number, output * layer.num_inputs() + weights.column_indices[edge],
                                      std::bit_cast<std::uint64_t>(weights.value(edge)));
      }
      sum += activation_fingerprint(2 * number + 1, output, std::bit_cast<std::uint64_t>(layer.bias_of(output)));
    }
  }
  return sum;
}

} // namespace varve
