#include "passes/neuron_map.hpp"

#include <numeric>

namespace varve {

std::vector<NeuronIndex> ascending(std::size_t count) {
  std::vector<NeuronIndex> numbers(count);
  std::iota(numbers.begin(), numbers.end(), NeuronIndex{0});
  return numbers;
}

std::vector<NeuronIndex> kept_neurons(NeuronMap const& map) {
  if (map.is_identity()) return ascending(map.num_before);
  std::vector<NeuronIndex> neurons;
  neurons.reserve(map.num_numbered);
  for (std::size_t neuron = 0; neuron < map.num_before; ++neuron) {
    if (map.numbers[neuron] == neurons.size()) neurons.push_back(static_cast<NeuronIndex>(neuron));
  }
  return neurons;
}

} // namespace varve
