#pragma once

#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace varve {

/// An order of the outputs in which those with equal input lists are neighbours: whole blocks of `block_outputs` of one
/// list first, then what is left over, list by list. Position -> output. Empty, for "as they are", if no two lists are
/// equal or the outputs are in such an order already. Lists are found by hash and compared exactly. Takes time
/// proportional to the edges.
std::vector<NeuronIndex> order_by_input_list(SparseMatrix const& weights, std::size_t block_outputs);

/// An order (position -> output) made of the same blocks of `block_outputs` outputs as the given one (empty: "as they
/// are"), in which those that share inputs are neighbours, in chains of `blocks_per_chain` (see find_stages): kernels
/// whose teams take such a chain find shared inputs in the cache.
std::vector<NeuronIndex> chain_blocks(SparseMatrix const& weights, std::vector<NeuronIndex> const& order,
                                      std::size_t block_outputs, std::size_t blocks_per_chain);

/// Runs of outputs that share inputs.
struct OutputStages {
  std::vector<NeuronIndex> order;    ///< position -> output
  std::vector<std::size_t> pointers; ///< first position of each stage, and the end
};

/// Orders the outputs in stages of at most `max_inputs` distinct inputs: a greedy chain that goes on with the outputs
/// that bring the fewest new inputs. Every stage but the last has a multiple of `unit` outputs, and less than
/// max(max_outputs, unit) + unit. Nothing if `unit` outputs in a row have more inputs than that, or if the stages'
/// inputs are used by fewer than `min_uses` edges each on average; without sharing this is seen after a few stages.
std::optional<OutputStages> find_stages(SparseMatrix const& weights, std::size_t unit, std::size_t max_inputs,
                                        std::size_t max_outputs, double min_uses);

} // namespace varve
