#include "reference/distinct_layer.hpp"

#include "network/analysis.hpp"

namespace varve {

DistinctLayer distinct_layer(Layer const& layer) {
  auto const firsts = firsts_of_equal_outputs(layer);
  SparseMatrix const& all = layer.weights;
  DistinctLayer distinct;
  distinct.place.resize(firsts.size());
  distinct.layer.bias.clear();
  distinct.layer.activation = layer.activation;
  SparseMatrix& weights = distinct.layer.weights;
  weights.num_columns = all.num_columns;
  bool const has_one_weight = all.values.size() == 1;
  if (has_one_weight) weights.values = all.values;
  for (std::size_t output = 0; output < firsts.size(); ++output) {
    if (firsts[output] != output) {
      distinct.place[output] = distinct.place[firsts[output]];
      continue;
    }
    distinct.place[output] = static_cast<NeuronIndex>(distinct.layer.bias.size());
    distinct.layer.bias.push_back(layer.bias_of(output));
    for (EdgeOffset edge = all.row_pointers[output]; edge < all.row_pointers[output + 1]; ++edge) {
      weights.column_indices.push_back(all.column_indices[edge]);
      if (!has_one_weight) weights.values.push_back(all.values[edge]);
    }
    weights.row_pointers.push_back(weights.num_entries());
  }
  weights.num_rows = distinct.layer.bias.size();
  return distinct;
}

} // namespace varve
