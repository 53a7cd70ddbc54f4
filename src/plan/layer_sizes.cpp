#include "plan/layer_sizes.hpp"

#include "passes/edge_order.hpp"
#include "passes/output_order.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace varve {
namespace {

EdgeOffset count_max_readers(SparseMatrix const& matrix) {
  std::vector<EdgeOffset> num_readers(matrix.num_columns, 0);
  for (NeuronIndex const input : matrix.column_indices) ++num_readers[input];
  return num_readers.empty() ? 0 : *std::ranges::max_element(num_readers);
}

} // namespace

std::vector<NeuronIndex> order_of_singles(SparseMatrix const& matrix) {
  return is_ascending(matrix) ? order_by_input_list(matrix, 1) : balance_outputs(matrix);
}

std::vector<NeuronIndex> order_in_wide_tiles(SparseMatrix const& matrix) {
  auto order = order_of_singles(matrix);
  if (!is_ascending(matrix)) return order;
  auto grouped = group_outputs(matrix);
  return bank_use(matrix, grouped).num_wavefronts < bank_use(matrix, order).num_wavefronts ? grouped : order;
}

std::vector<NeuronIndex> order_by_size(SparseMatrix const& matrix) {
  std::vector<NeuronIndex> order(matrix.num_rows);
  std::iota(order.begin(), order.end(), NeuronIndex(0));
  auto const is_larger = [&](NeuronIndex one, NeuronIndex other) {
    return matrix.row_size(one) > matrix.row_size(other);
  };
  if (std::ranges::is_sorted(order, is_larger)) return {};
  std::ranges::stable_sort(order, is_larger);
  return order;
}

EllSize ell_size(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, EllShape const& shape) {
  EllSize size;
  std::vector<NeuronIndex> inputs;
  std::size_t const num_blocks = count_blocks(matrix, shape.block_outputs);
  for (std::size_t first = 0; first < num_blocks; first += shape.slice_width) {
    std::size_t const longest = longest_list(matrix, order, shape.block_outputs, first, shape.slice_width, inputs);
    std::size_t const chunks = (longest + shape.chunk_size - 1) / shape.chunk_size;
    ++size.num_slices;
    size.num_chunks += chunks;
    size.max_chunks = std::max(size.max_chunks, chunks);
  }
  return size;
}

EdgeOffset num_stored_densely(SparseMatrix const& matrix, EllShape const& shape) {
  EdgeOffset const chunks = (matrix.num_columns + shape.chunk_size - 1) / shape.chunk_size;
  return count_blocks(matrix, shape.block_outputs) * shape.block_outputs * chunks * shape.chunk_size;
}

bool suits_counts(Layer const& layer, std::size_t max_outputs) {
  constexpr EdgeOffset max_degree = 255; // counts are bytes
  constexpr EdgeOffset many = 4;         // edges per input on average; with more, entries are too much work
  SparseMatrix const& matrix = layer.weights;
  if (matrix.values.size() != 1 || layer.bias.size() != 1 || matrix.num_rows > max_outputs) return false;
  for (std::size_t output = 0; output < matrix.num_rows; ++output) {
    if (matrix.row_size(output) > max_degree) return false;
  }
  return matrix.num_entries() <= many * matrix.num_columns && count_max_readers(matrix) <= 2 * many;
}

bool suits_entries(Layer const& layer, std::size_t max_outputs) {
  constexpr std::size_t many_inputs = 4096;
  constexpr std::size_t inputs_per_output = 8; // with fewer, tiles of inputs cost little beside tiles of outputs
  return layer.num_inputs() >= std::max(many_inputs, inputs_per_output * layer.num_outputs()) &&
         layer.num_outputs() <= max_outputs && is_ascending(layer.weights);
}

std::size_t stationary_bytes(EllShape const& shape, std::size_t blocks_per_team, std::size_t max_chunks,
                             std::size_t scalar_bytes, std::size_t index_bytes) {
  return blocks_per_team * max_chunks * shape.chunk_size * (shape.block_outputs * scalar_bytes + index_bytes) +
         blocks_per_team * shape.block_outputs * (sizeof(double) + sizeof(NeuronIndex));
}

std::size_t image_bytes(Layer const& layer, EllShape const& shape, EllSize const& size, std::size_t scalar_bytes) {
  std::size_t const stored = num_stored(size, shape);
  std::size_t const padded = padded_outputs(layer.num_outputs());
  return layout_of({.header = image_header_bytes,
                    .slice_chunks = (size.num_slices + 1) * sizeof(std::uint32_t),
                    .bias = (layer.bias.size() == 1 ? 1 : padded) * sizeof(double),
                    .neurons = padded * sizeof(NeuronIndex),
                    .indices = stored / shape.block_outputs * sizeof(std::uint16_t),
                    .weights = stored * scalar_bytes})
      .end;
}

bool gains_from_dense(SparseMatrix const& matrix, EdgeOffset stored, EllShape const& pattern_blocks,
                      DeviceTraits const& device) {
  auto const is_at_most = [stored](double factor, EdgeOffset weights) {
    return static_cast<double>(stored) <= factor * static_cast<double>(weights);
  };
  if (std::max(matrix.num_rows, matrix.num_columns) < device.narrowest_dense ||
      matrix.num_entries() < device.fewest_dense_edges * matrix.num_rows ||
      !is_at_most(device.max_stored_in_dense, matrix.num_entries()))
    return false;
  auto const size = ell_size(matrix, order_by_input_list(matrix, pattern_blocks.block_outputs), pattern_blocks);
  return is_at_most(device.dense_per_block_weight, num_stored(size, pattern_blocks));
}

} // namespace varve
