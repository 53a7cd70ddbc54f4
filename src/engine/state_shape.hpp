#pragma once

#include "network/network.hpp"
#include "network/optimizer.hpp"

#include <vector>

namespace varve {

/// Throws InputError unless the state has the moments of this optimizer for every edge and output of the layers.
void require_shape(OptimizerState const& state, std::vector<Layer> const& layers, Optimizer const& optimizer);

} // namespace varve
