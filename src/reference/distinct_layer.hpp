#pragma once

#include "network/network.hpp"

#include <vector>

namespace varve {

/// A layer without repeated outputs. Outputs with equal input lists, weights and bias, bit for bit, have equal values
/// in any arithmetic, so they are computed once; no weights are added up and nothing is rounded.
struct DistinctLayer {
  Layer layer;                    ///< shape [distinct outputs, inputs], one bias per output
  std::vector<NeuronIndex> place; ///< for each output of the source's layer its distinct output

  std::size_t num_outputs() const { return place.size(); }
};

/// Finds the distinct outputs of a valid layer in time linear in its edges and outputs.
DistinctLayer distinct_layer(Layer const& layer);

} // namespace varve
