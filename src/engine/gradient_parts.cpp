#include "engine/gradient_parts.hpp"

#include <algorithm>

namespace varve {

namespace {

/// The bundles of a layer of which each has at most most_edges edges, the last one first.
std::vector<GradientBundle> bundles_of_large(Layer const& layer, std::size_t number, std::size_t most_edges) {
  std::size_t const count = (layer.num_edges() + most_edges - 1) / most_edges;
  std::vector<GradientBundle> bundles;
  for (std::size_t left = layer.num_edges(), part = count; part > 0; left -= bundles.back().num_edges, --part)
    bundles.push_back({number, 1, 0, left / part, 0, part == count ? layer.num_outputs() : 0});
  return bundles;
}

} // namespace

std::size_t GradientParts::least_sums_of(Network const& network) {
  std::size_t sums = 0;
  for (auto const& layer : network.layers()) sums += layer.num_edges() + layer.num_outputs();
  return std::clamp(sums / 4, least_sums, 16 * least_sums);
}

GradientParts::GradientParts(Network const& network, std::size_t num_ranks, std::size_t least_size,
                             std::size_t most_edges)
    : num_ranks_(num_ranks) {
  auto const& layers = network.layers();
  std::vector<GradientBundle> from_last; // layers end their backward pass from the last to the first
  bool is_open = false;                  // the last bundle may take one layer more
  for (std::size_t number = layers.size(); number-- > 0;) {
    auto const& layer = layers[number];
    if (layer.num_edges() > most_edges) {
      auto const parts = bundles_of_large(layer, number, most_edges);
      from_last.insert(from_last.end(), parts.begin(), parts.end());
      is_open = false;
      continue;
    }
    if (!is_open) from_last.emplace_back();
    auto& bundle = from_last.back();
    bundle.first_layer = number;
    ++bundle.num_layers;
    bundle.num_edges += layer.num_edges();
    bundle.num_outputs += layer.num_outputs();
    is_open = bundle.num_sums() < least_size;
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
    bundle_of_layer_.resize(bundle.first_layer, number);
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
