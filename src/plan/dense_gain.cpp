#include "plan/dense_gain.hpp"

#include "passes/output_order.hpp"
#include "plan/layer_sizes.hpp"

#include <algorithm>

namespace varve {

bool gains_from_dense(SparseMatrix const& matrix, EdgeOffset stored, EllShape const& pattern_blocks,
                      DeviceTraits const& device) {
  auto const is_at_most = [stored](double factor, EdgeOffset weights) {
    return static_cast<double>(stored) <= factor * static_cast<double>(weights);
  };
  if (std::max(matrix.num_rows, matrix.num_columns) < device.narrowest_dense ||
      matrix.num_entries() < device.fewest_dense_edges * matrix.num_rows ||
      !is_at_most(device.most_stored_in_dense, matrix.num_entries()))
    return false;
  auto const size = ell_size(matrix, order_by_input_list(matrix, pattern_blocks.block_outputs), pattern_blocks);
  return is_at_most(device.dense_per_block_weight, num_stored(size, pattern_blocks));
}

} // namespace varve
