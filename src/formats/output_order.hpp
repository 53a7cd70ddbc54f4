#pragma once

#include "network/sparse_matrix.hpp"

#include <vector>

namespace varve {

/// An order of the outputs in which those with equal input lists are neighbours: whole blocks of `block_outputs` of one
/// list first, then what is left over, list by list. Position -> output. Empty, for "as they are", if no two lists are
/// equal or the outputs are in such an order already. Lists are found by hash and compared exactly. Takes time
/// proportional to the edges.
std::vector<NeuronIndex> order_by_input_list(SparseMatrix const& weights, std::size_t block_outputs);

} // namespace varve
