#include "engine/state_shape.hpp"

#include "core/error.hpp"

namespace varve {

void require_shape(OptimizerState const& state, std::vector<Layer> const& layers, Optimizer const& optimizer) {
  auto const moments = static_cast<std::size_t>(optimizer.num_moments());
  bool fits = state.layers.size() == layers.size();
  for (std::size_t number = 0; fits && number < layers.size(); ++number) {
    auto const& given = state.layers[number];
    fits = given.weights.size() == moments && given.bias.size() == moments;
    for (std::size_t moment = 0; fits && moment < moments; ++moment)
      fits = given.weights[moment].size() == layers[number].num_edges() &&
             given.bias[moment].size() == layers[number].num_outputs();
  }
  if (!fits) {
    throw InputError("the state of the optimizer does not fit the network and the optimizer " +
                     to_string(optimizer.kind));
  }
}

} // namespace varve
