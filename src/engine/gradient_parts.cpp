#include "engine/gradient_parts.hpp"

#include <algorithm>

namespace varve {

GradientParts::GradientParts(Network const& network, std::size_t num_ranks, std::size_t least_sums)
    : num_ranks_(num_ranks) {
  auto const& layers = network.layers();
  std::vector<GradientBundle> from_last; // layers end their backward pass from the last to the first
  for (std::size_t number = layers.size(); number-- > 0;) {
    if (from_last.empty() || from_last.back().num_sums() >= least_sums) from_last.emplace_back();
    auto& bundle = from_last.back();
    bundle.first_layer = number;
    ++bundle.num_layers;
    bundle.num_edges += layers[number].num_edges();
    bundle.num_outputs += layers[number].num_outputs();
  }
  bundles_.assign(from_last.rbegin(), from_last.rend());
  std::size_t first_edge = 0;
  std::size_t first_output = 0;
  for (std::size_t number = 0; number < bundles_.size(); ++number) {
    auto& bundle = bundles_[number];
    bundle.first_edge = first_edge;
    bundle.first_output = first_output;
    first_edge += bundle.num_edges;
    first_output += bundle.num_outputs;
    bundle_of_layer_.insert(bundle_of_layer_.end(), bundle.num_layers, number);
  }
}

GradientPart GradientParts::part(std::size_t bundle, std::size_t rank) const {
  auto const& whole = bundles_[bundle];
  auto const cut = [&](std::size_t number) { // at a multiple of 16 numbers, a vector or a cache line
    return number == num_ranks_ ? whole.num_sums() : whole.num_sums() / num_ranks_ * number / 16 * 16;
  };
  std::size_t const first = cut(rank);
  std::size_t const last = cut(rank + 1);
  auto const edge = [&](std::size_t place) { return whole.first_edge + std::min(place, whole.num_edges); };
  auto const output = [&](std::size_t place) {
    return whole.first_output + (std::max(place, whole.num_edges) - whole.num_edges);
  };
  return {whole.first_sum() + first, edge(first), edge(last), output(first), output(last)};
}

} // namespace varve
