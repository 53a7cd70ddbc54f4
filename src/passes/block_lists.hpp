#pragma once

#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <vector>

namespace varve {

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
