#include "passes/cone_levels.hpp"

#include <numeric>
#include <utility>

namespace varve {

ConeLevels::ConeLevels(std::span<Layer const> layers) : layers_(layers) {
  for (Layer const& layer : layers) {
    SparseMatrix const& matrix = layer.weights;
    std::vector<EdgeOffset> pointers(matrix.num_columns + 1, 0);
    for (NeuronIndex const input : matrix.column_indices) ++pointers[input + 1];
    std::partial_sum(pointers.begin(), pointers.end(), pointers.begin());
    std::vector<NeuronIndex> readers(matrix.num_entries());
    auto next = pointers;
    for (std::size_t output = 0; output < matrix.num_rows; ++output) {
      for (NeuronIndex const input : matrix.row_columns(output))
        readers[next[input]++] = static_cast<NeuronIndex>(output);
    }
    reader_pointers_.push_back(std::move(pointers));
    readers_.push_back(std::move(readers));
  }
}

} // namespace varve
