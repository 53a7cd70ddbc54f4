#pragma once

#include "engine/rank_exchange.hpp"
#include "engine/trained_weights.hpp"
#include "engine/training.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The first layer in which this rank owns a moment that is not finite.
template <class Scalar>
std::optional<std::size_t> layer_of_bad_moment(Stream const& stream, TrainedWeights<Scalar> const& weights) {
  auto const edge = weights.moments().first_bad_edge(stream);
  auto const output = weights.moments().first_bad_output(stream);
  for (std::size_t number = 0; number < weights.layers().size(); ++number) {
    auto const& layer = weights.layers()[number];
    bool const has_edge = edge && *edge < layer.first_edge + layer.edges.num_edges();
    bool const has_output = output && *output < layer.first_output + static_cast<std::size_t>(layer.num_outputs);
    if (has_edge || has_output) return number;
  }
  return std::nullopt;
}

/// Throws DivergenceError on all ranks if a moment of Adam is not finite on one of them. (With other optimizers,
/// moments that are not finite imply such weights.) exchange: null if there is one rank. Collective.
template <class Scalar>
void require_finite_moments(Stream const& stream, TrainedWeights<Scalar> const& weights, RankExchange* exchange) {
  if (!weights.optimizer().is_adaptive()) return;
  auto const own = layer_of_bad_moment(stream, weights);
  std::vector<double> layers = {own ? static_cast<double>(*own) : std::numeric_limits<double>::infinity()};
  if (exchange != nullptr) layers = exchange->gather(layers);
  double const layer = *std::ranges::min_element(layers);
  if (std::isinf(layer)) return;
  throw DivergenceError("training diverges: after step " + std::to_string(weights.num_steps()) + ", layer " +
                        std::to_string(static_cast<std::size_t>(layer)) +
                        " has a moment of Adam that is no finite number, so that weights no "
                        "longer change; its "
                        "gradients are too large to be squared: scale targets or samples down");
}

} // namespace varve
