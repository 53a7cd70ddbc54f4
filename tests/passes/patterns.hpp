#pragma once

#include "network/network.hpp"
#include "radixnet/network.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace varve {

/// A square layer of random inputs, with this many edges an output or this share of all edges.
inline Layer random_layer(std::size_t width, std::optional<std::size_t> degree, std::optional<double> density) {
  RandomNetworkRecipe recipe;
  recipe.widths = {width, width};
  recipe.degree = degree;
  recipe.density = density;
  return RandomNetwork(recipe).layer(0);
}

/// Square, of these input lists; weight r + 0.001 c at (r, c).
inline SparseMatrix matrix_of_lists(std::size_t num_columns, std::vector<std::vector<NeuronIndex>> const& lists) {
  SparseMatrix matrix;
  matrix.num_rows = lists.size();
  matrix.num_columns = num_columns;
  for (std::size_t row = 0; row < lists.size(); ++row) {
    for (NeuronIndex const input : lists[row]) {
      matrix.column_indices.push_back(input);
      matrix.values.push_back(static_cast<double>(row) + 0.001 * input);
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

} // namespace varve
