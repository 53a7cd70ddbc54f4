#pragma once

#include "network/network.hpp"

#include <vector>

namespace varve {

/// A layer whose equal outputs are computed once. That is no rounding: equal input lists, weights and biases, bit for
/// bit, give equal values in any arithmetic. Weights are not added up.
struct DistinctLayer {
  Layer layer;                    ///< [distinct outputs, inputs], one bias per output
  std::vector<NeuronIndex> place; ///< [outputs of the source's layer] which of the distinct outputs it is

  std::size_t num_outputs() const { return place.size(); }
};

/// Takes time proportional to the edges and outputs of a valid layer.
DistinctLayer distinct_layer(Layer const& layer);

} // namespace varve
