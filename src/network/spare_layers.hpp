#pragma once

#include "core/spare_vectors.hpp"
#include "network/network.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace varve {

/// Gives the vectors of a layer that is done with to those who read the next ones.
inline void give_back(Layer layer) noexcept {
  SpareVectors<EdgeOffset>::of_process().give_back(std::move(layer.weights.row_pointers));
  SpareVectors<NeuronIndex>::of_process().give_back(std::move(layer.weights.column_indices));
  SpareVectors<double>::of_process().give_back(std::move(layer.weights.values));
}

/// A copy of a layer that will be given back, and may have far more memory than it needs until then.
inline Layer passing_copy(Layer const& layer) {
  auto const copy = [](auto const& from) {
    using Vector = std::remove_cvref_t<decltype(from)>;
    auto to = SpareVectors<typename Vector::value_type>::of_process().take(from.size());
    std::ranges::copy(from, to.begin());
    return to;
  };
  auto const& weights = layer.weights;
  return {{weights.num_rows, weights.num_columns, copy(weights.row_pointers), copy(weights.column_indices),
           copy(weights.values)},
          layer.bias,
          layer.activation};
}

} // namespace varve
