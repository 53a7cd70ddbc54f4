#include "engine/neuron_split.hpp"

#include "core/error.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

namespace varve {

std::vector<std::size_t> cut_outputs(SparseMatrix const& weights, int num_parts) {
  auto const parts = static_cast<std::size_t>(num_parts);
  auto const cost_before = [&](std::size_t output) { return weights.row_pointers[output] + output; };
  EdgeOffset const whole = cost_before(weights.num_rows);
  auto const outputs = std::views::iota(std::size_t{0}, weights.num_rows + 1);
  std::vector<std::size_t> bounds;
  for (std::size_t part = 0; part < parts; ++part) {
    EdgeOffset const wanted = whole / parts * part + whole % parts * part / parts;
    bounds.push_back(*std::ranges::lower_bound(outputs, wanted, {}, cost_before));
  }
  bounds.push_back(weights.num_rows);
  return bounds;
}

LayerSlices::LayerSlices(NetworkSource const& network, int rank, int num_ranks)
    : network_(network), rank_(rank), num_ranks_(num_ranks), wholes_(network.num_layers()) {}

Layer LayerSlices::layer(std::size_t number) const {
  Layer const all = network_.layer(number);
  if (all.num_outputs() > std::numeric_limits<int>::max())
    layer_is_too_wide(number, all.num_inputs(), all.num_outputs());
  WholeLayer whole{cut_outputs(all.weights, num_ranks_), all.num_edges(), keeps_zero(all)};
  auto const rank = static_cast<std::size_t>(rank_);
  auto const first = whole.bounds[rank];
  auto const last = whole.bounds[rank + 1];
  Layer own = layer_of(all, {first, last - first});
  std::lock_guard const lock(mutex_);
  if (wholes_[number].bounds.empty()) wholes_[number] = std::move(whole); // otherwise other threads may be reading it
  return own;
}

EdgeOffset LayerSlices::num_edges() const {
  EdgeOffset edges = 0;
  for (auto const& whole : wholes_) edges += whole.num_edges;
  return edges;
}

} // namespace varve
