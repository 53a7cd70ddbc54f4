#pragma once

#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace varve {

/// An order of the outputs (position -> output) in which outputs with equal input lists are neighbours: first whole
/// blocks of `block_outputs` outputs with one list, then the remaining outputs, list by list. Empty, which means 0, 1,
/// 2, ..., if no two lists are equal or the outputs are in such an order already. Lists are found by hash and compared
/// in full. Time is linear in the edges.
std::vector<NeuronIndex> order_by_input_list(SparseMatrix const& weights, std::size_t block_outputs);

/// Reorders the blocks of `block_outputs` outputs of a given order (position -> output; empty means 0, 1, 2, ...) so
/// that blocks that share inputs are neighbours, in chains of `blocks_per_chain` (see find_stages): a kernel whose team
/// computes such a chain finds shared inputs in the cache.
std::vector<NeuronIndex> chain_blocks(SparseMatrix const& weights, std::vector<NeuronIndex> const& order,
                                      std::size_t block_outputs, std::size_t blocks_per_chain);

/// Runs of outputs that share inputs.
struct OutputStages {
  std::vector<NeuronIndex> order;    ///< position -> output
  std::vector<std::size_t> pointers; ///< first position of each stage, followed by the number of positions
};

/// Orders the outputs in stages with at most `max_inputs` distinct inputs each, as a greedy chain: the next outputs are
/// those that add the fewest new inputs. Every stage but the last has a multiple of `unit` outputs, fewer than
/// max(max_outputs, unit) + unit. Returns nullopt if `unit` outputs in a row have more than `max_inputs` inputs, or if
/// fewer than `min_uses` edges on average use each input of a stage; the latter is detected after a few stages.
std::optional<OutputStages> find_stages(SparseMatrix const& weights, std::size_t unit, std::size_t max_inputs,
                                        std::size_t max_outputs, double min_uses);

/// The output at a position of an order (position -> output; empty: position j holds output j).
inline std::size_t output_at(std::vector<NeuronIndex> const& order, std::size_t position) {
  return order.empty() ? position : order[position];
}

/// Writes to `inputs` a list that contains, in their order, the input lists of all outputs of a block of
/// `block_outputs` neighbouring positions: their union where all lists ascend, else one list after the other.
void list_inputs(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, std::size_t block_outputs,
                 std::size_t block, std::vector<NeuronIndex>& inputs);

/// The length of the longest list among `num_blocks` neighbouring blocks, or as many as there are. `inputs` is a work
/// array.
std::size_t longest_list(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, std::size_t block_outputs,
                         std::size_t first_block, std::size_t num_blocks, std::vector<NeuronIndex>& inputs);

/// The number of blocks of `block_outputs` outputs; the last block may have fewer outputs.
inline std::size_t count_blocks(SparseMatrix const& matrix, std::size_t block_outputs) {
  return (matrix.num_rows + block_outputs - 1) / block_outputs;
}

} // namespace varve
