#include "passes/pruned_network.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace varve {
namespace {

constexpr unsigned digit_bits = 16;
constexpr unsigned num_digits = 4; ///< digits in the bits of a weight
constexpr std::size_t num_values = std::size_t{1} << digit_bits;

/// The bits of the absolute weight of an edge: they are ordered as the absolute weights are.
std::uint64_t magnitude_of(SparseMatrix const& weights, EdgeOffset edge) {
  return std::bit_cast<std::uint64_t>(std::abs(weights.value(edge)));
}

EdgeOffset places_of(SparseMatrix const& weights) { return EdgeOffset{weights.num_rows} * weights.num_columns; }

} // namespace

EdgeOffset edges_at(double density, EdgeOffset places) {
  return static_cast<EdgeOffset>(std::floor(density * static_cast<double>(places) + 0.5));
}

/// Finds the magnitude digit by digit, the highest first: reads all edges once for each digit, with one counter for
/// each value of it.
template <class ForEachLayer>
PrunedNetwork::Limit PrunedNetwork::limit_of(EdgeOffset count, ForEachLayer const& for_each_layer) {
  Limit limit{0, count};
  for (unsigned digit = num_digits; digit-- > 0;) {
    unsigned const shift = digit * digit_bits;
    std::vector<EdgeOffset> counts(num_values, 0);
    for_each_layer([&](SparseMatrix const& weights) {
      for (EdgeOffset edge = 0; edge < weights.num_entries(); ++edge) {
        auto const bits = magnitude_of(weights, edge);
        bool const is_candidate = digit + 1 == num_digits || (bits ^ limit.magnitude) >> (shift + digit_bits) == 0;
        if (is_candidate) ++counts[bits >> shift & (num_values - 1)];
      }
    });
    std::size_t value = num_values - 1;
    while (value > 0 && counts[value] < limit.num_equal) limit.num_equal -= counts[value--];
    limit.magnitude |= std::uint64_t{value} << shift;
  }
  return limit;
}

PrunedNetwork::PrunedNetwork(NetworkSource const& source, double density, PruneScope scope)
    : source_(source), density_(density), is_emptied_(source.num_layers()) {
  VARVE_REQUIRE(density > 0.0 && density <= 1.0, "a density is above 0 and at most 1");
  if (scope == PruneScope::network) find_network_limits();
}

void PrunedNetwork::find_network_limits() {
  EdgeOffset places = 0;
  auto const for_each_layer = [&](auto const& visit) {
    for (std::size_t number = 0; number < num_layers(); ++number) visit(source_.layer(number).weights);
  };
  for_each_layer([&](SparseMatrix const& weights) { places += places_of(weights); });
  auto const limit = limit_of(edges_at(density_, places), for_each_layer);
  auto left = limit.num_equal; // edges at the limit that later layers may keep
  auto& limits = limits_.emplace();
  for_each_layer([&](SparseMatrix const& weights) {
    EdgeOffset num_equal = 0;
    for (EdgeOffset edge = 0; edge < weights.num_entries(); ++edge)
      num_equal += magnitude_of(weights, edge) == limit.magnitude ? 1 : 0;
    limits.push_back({limit.magnitude, std::min(num_equal, left)});
    left -= limits.back().num_equal;
  });
}

Layer PrunedNetwork::layer(std::size_t number) const {
  Layer layer = source_.layer(number);
  SparseMatrix const all = std::move(layer.weights);
  layer.weights = {all.num_rows, all.num_columns, {0}, {}, {}};
  auto limit = limits_ ? limits_->at(number)
                       : limit_of(edges_at(density_, places_of(all)), [&](auto const& visit) { visit(all); });
  auto& kept = layer.weights;
  for (std::size_t row = 0; row < all.num_rows; ++row) {
    for (EdgeOffset edge = all.row_pointers[row]; edge < all.row_pointers[row + 1]; ++edge) {
      auto const magnitude = magnitude_of(all, edge);
      bool const is_equal = magnitude == limit.magnitude && limit.num_equal > 0;
      if (magnitude < limit.magnitude || (magnitude == limit.magnitude && !is_equal)) continue;
      limit.num_equal -= is_equal ? 1 : 0;
      kept.column_indices.push_back(all.column_indices[edge]);
      if (!all.is_iso()) kept.values.push_back(all.value(edge));
    }
    kept.row_pointers.push_back(kept.num_entries());
  }
  if (all.is_iso()) kept.values = all.values;
  if (kept.num_entries() == 0 && all.num_entries() > 0) is_emptied_[number] = true;
  return layer;
}

std::vector<std::size_t> PrunedNetwork::emptied_layers() const {
  std::vector<std::size_t> numbers;
  for (std::size_t number = 0; number < is_emptied_.size(); ++number)
    if (is_emptied_[number]) numbers.push_back(number);
  return numbers;
}

} // namespace varve
