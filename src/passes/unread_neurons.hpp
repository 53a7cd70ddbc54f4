#pragma once

#include "network/network.hpp"
#include "passes/neuron_map.hpp"

#include <vector>

/// Finds the neurons that nothing reads and drops them.
namespace varve {

/// For each input of the layer whether any output reads it; empty if all inputs are read.
std::vector<bool> unless_all_read(SparseMatrix const& weights);

/// Drops the outputs of a canonical layer that are not marked. If none is marked, one output that reads nothing
/// remains.
void keep_outputs(Layer& layer, std::vector<bool> const& is_kept);

/// Removes the inputs that are not marked, which no output may read, and renumbers the rest; at least one input
/// remains.
void keep_inputs(Layer& layer, std::vector<bool> const& is_kept);

/// Maps the neurons that are not marked to kUnread; is_kept has one element for each of the map's width().
void keep_neurons(NeuronMap& map, std::vector<bool> const& is_kept);

} // namespace varve
