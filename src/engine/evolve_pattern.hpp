#pragma once

#include "engine/growth_search.hpp"

#include <functional>
#include <vector>

namespace varve {

/// Carries out a change of the pattern (network/pattern_change.hpp) of weights on a device, whose optimizer has this
/// state (with all moments). `forward(micro)` runs the forward pass of a micro-batch of the mini-batch, which decides
/// where PatternKind::rigl grows edges. With several ranks, each one does all of it and finds the same.
template <class ExecutionSpace, class Scalar, class WeightSpace>
PatternCount evolve_pattern(ExecutionSpace const& space, TrainedWeights<WeightSpace, Scalar>& weights,
                            OptimizerState state, TrainingPasses<ExecutionSpace, Scalar, WeightSpace>& passes,
                            PatternEvent const& event, std::size_t num_micro_batches, GrowthLimits const& limits,
                            std::function<void(std::size_t)> const& forward) {
  auto layers = weights.network().layers();
  std::vector<std::vector<EdgeOffset>> dropped;
  std::vector<EdgeOffset> counts;
  for (auto const& layer : layers) {
    auto const num_places = EdgeOffset{layer.num_outputs()} * layer.num_inputs();
    counts.push_back(edges_to_drop(event.fraction, layer.num_edges(), num_places));
    dropped.push_back(smallest_edges(layer.weights, counts.back()));
  }
  std::vector<std::vector<PlaceNumber>> grown;
  if (event.kind == PatternKind::rigl) {
    auto kept = layers;
    for (std::size_t number = 0; number < kept.size(); ++number) {
      kept[number].weights = regrown(kept[number].weights, dropped[number], {}).pattern;
      kept[number].weights.values.assign(kept[number].num_edges(), 0.0);
    }
    Network const kept_network(std::move(kept));
    GrowthSearch<ExecutionSpace, Scalar, WeightSpace> search(space, passes, kept_network, counts, num_micro_batches,
                                                             limits, forward);
    grown = search.run();
  } else {
    for (std::size_t number = 0; number < layers.size(); ++number)
      grown.push_back(random_places(layers[number].weights, dropped[number], event, number));
  }
  PatternCount count;
  for (std::size_t number = 0; number < layers.size(); ++number)
    count += regrow(layers[number], state.layers[number].weights, dropped[number], grown[number]);
  weights.replace(Network(std::move(layers)), state);
  return count;
}

} // namespace varve
