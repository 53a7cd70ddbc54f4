#pragma once

#include "network/sparse_matrix.hpp"

#include <vector>

namespace varve {

/// An order of the outputs (position -> output) in groups of four that read different banks (passes/edge_order.hpp) in
/// as many steps as possible, although no edge moves, so that sums keep their bits: of random inputs in ascending order
/// it leaves 1.5 wavefronts a step of 2.1. Numbers of edges descend from group to group. Greedy: completes the output
/// with most edges by those of the next ones that meet it least. Depends on the order of edges. Time is linear in the
/// outputs, and in the edges of an output up to some thousand.
std::vector<NeuronIndex> group_outputs(SparseMatrix const& weights);

} // namespace varve
