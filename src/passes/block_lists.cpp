#include "passes/block_lists.hpp"

#include <algorithm>
#include <iterator>

namespace varve {

void list_inputs(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, std::size_t block_outputs,
                 std::size_t block, std::vector<NeuronIndex>& inputs) {
  std::size_t const last = std::min((block + 1) * block_outputs, matrix.num_rows);
  auto const first_list = matrix.row_columns(output_at(order, block * block_outputs));
  inputs.assign(first_list.begin(), first_list.end());
  for (std::size_t position = block * block_outputs + 1; position < last; ++position) {
    auto const list = matrix.row_columns(output_at(order, position));
    if (std::ranges::equal(list, inputs)) continue;
    if (!std::ranges::is_sorted(list) || !std::ranges::is_sorted(inputs)) {
      inputs.insert(inputs.end(), list.begin(), list.end());
      continue;
    }
    std::vector<NeuronIndex> merged;
    std::ranges::set_union(inputs, list, std::back_inserter(merged));
    inputs.swap(merged);
  }
}

std::size_t longest_list(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, std::size_t block_outputs,
                         std::size_t first_block, std::size_t num_blocks, std::vector<NeuronIndex>& inputs) {
  std::size_t longest = 0;
  std::size_t const last = std::min(first_block + num_blocks, count_blocks(matrix, block_outputs));
  for (std::size_t block = first_block; block < last; ++block) {
    list_inputs(matrix, order, block_outputs, block, inputs);
    longest = std::max(longest, inputs.size());
  }
  return longest;
}

} // namespace varve
