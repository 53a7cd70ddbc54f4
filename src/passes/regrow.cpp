#include "passes/regrow.hpp"

#include "core/error.hpp"
#include "radixnet/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace varve {
namespace {

bool is_better(GrowthCandidate const& one, GrowthCandidate const& other) {
  return one.magnitude != other.magnitude ? one.magnitude > other.magnitude : one.place < other.place;
}

/// Calls visit(edge, place) for every edge, in ascending order.
template <class Visit>
void for_each_place(SparseMatrix const& pattern, Visit const& visit) {
  for (std::size_t row = 0; row < pattern.num_rows; ++row)
    for (EdgeOffset edge = pattern.row_pointers[row]; edge < pattern.row_pointers[row + 1]; ++edge)
      visit(edge, PlaceNumber{row} * pattern.num_columns + pattern.column_indices[edge]);
}

/// The first `count` elements of a shuffle of 0 ... length - 1, ascending. Only elements that draws have moved are
/// held.
std::vector<std::uint64_t> drawn(RandomStream random, std::uint64_t count, std::uint64_t length) {
  std::unordered_map<std::uint64_t, std::uint64_t> moved;
  auto const element = [&](std::uint64_t index) {
    auto const found = moved.find(index);
    return found == moved.end() ? index : found->second;
  };
  std::vector<std::uint64_t> chosen;
  chosen.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t const other = i + random.below(length - i);
    chosen.push_back(element(other));
    moved[other] = element(i);
  }
  std::ranges::sort(chosen);
  return chosen;
}

} // namespace

std::string to_string(PatternKind kind) {
  return kind == PatternKind::keep ? "keep" : kind == PatternKind::set ? "set" : "rigl";
}

PatternKind parse_pattern_kind(std::string const& name) {
  for (auto const kind : {PatternKind::keep, PatternKind::set, PatternKind::rigl})
    if (name == to_string(kind)) return kind;
  throw UsageError("there is no way '" + name + "' to change the pattern of edges; there are: keep, set, rigl");
}

EdgeOffset edges_to_drop(double fraction, EdgeOffset num_edges, EdgeOffset num_places) {
  VARVE_REQUIRE(fraction >= 0.0 && fraction <= 1.0, "a fraction of the edges is from 0 to 1");
  if (num_edges == num_places) return 0;
  return static_cast<EdgeOffset>(std::floor(fraction * static_cast<double>(num_edges) + 0.5));
}

void BestCandidates::add(std::span<GrowthCandidate const> candidates) {
  for (auto const& candidate : candidates) {
    best_.push_back(candidate);
    if (!(best_.back().magnitude > 0.0)) best_.back().magnitude = 0.0;
    if (best_.size() > 2 * count_) shrink();
  }
  shrink();
}

void BestCandidates::shrink() {
  if (count_ == 0) best_.clear();
  if (count_ == 0 || best_.size() < count_) return;
  auto const last = best_.begin() + static_cast<std::ptrdiff_t>(count_ - 1);
  std::nth_element(best_.begin(), last, best_.end(), is_better);
  best_.resize(count_);
}

std::optional<double> BestCandidates::limit() const {
  if (count_ == 0) return std::numeric_limits<double>::infinity();
  return best_.size() < count_ ? std::nullopt : std::optional(best_.back().magnitude);
}

std::vector<PlaceNumber> BestCandidates::places() const {
  std::vector<PlaceNumber> places;
  for (auto const& candidate : best_) places.push_back(candidate.place);
  std::ranges::sort(places);
  return places;
}

std::vector<EdgeOffset> smallest_edges(SparseMatrix const& weights, EdgeOffset count) {
  VARVE_REQUIRE(count <= weights.num_entries(), "more edges are dropped than there are");
  std::vector<EdgeOffset> edges(weights.num_entries());
  std::iota(edges.begin(), edges.end(), EdgeOffset{0});
  auto const comes_first = [&](EdgeOffset one, EdgeOffset other) {
    double const first = std::abs(weights.value(one));
    double const second = std::abs(weights.value(other));
    return first != second ? first < second : one > other;
  };
  std::nth_element(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(count), edges.end(), comes_first);
  edges.resize(count);
  std::ranges::sort(edges);
  return edges;
}

std::vector<PlaceNumber> places_of(SparseMatrix const& pattern, std::span<EdgeOffset const> edges) {
  std::vector<PlaceNumber> places;
  places.reserve(edges.size());
  std::size_t row = 0;
  for (auto const edge : edges) {
    while (pattern.row_pointers[row + 1] <= edge) ++row;
    places.push_back(PlaceNumber{row} * pattern.num_columns + pattern.column_indices[edge]);
  }
  return places;
}

std::vector<PlaceNumber> random_places(SparseMatrix const& pattern, std::span<EdgeOffset const> dropped,
                                       PatternEvent const& event, std::size_t layer) {
  auto const kept = pattern.num_entries() - dropped.size();
  auto places = drawn(RandomStream(event.seed, growth_stream(event, layer)), dropped.size(),
                      PlaceNumber{pattern.num_rows} * pattern.num_columns - kept); // numbers among the free places
  std::uint64_t num_before = 0;                                                    // kept edges before the place
  auto place = places.begin();
  auto next_dropped = dropped.begin();
  for_each_place(pattern, [&](EdgeOffset edge, PlaceNumber taken) {
    if (next_dropped != dropped.end() && *next_dropped == edge) {
      ++next_dropped;
      return;
    }
    for (; place != places.end() && *place + num_before < taken; ++place) *place += num_before;
    ++num_before;
  });
  for (; place != places.end(); ++place) *place += num_before;
  return places;
}

RegrownPattern regrown(SparseMatrix const& pattern, std::span<EdgeOffset const> dropped,
                       std::span<PlaceNumber const> grown) {
  RegrownPattern result;
  auto& changed = result.pattern;
  changed = {pattern.num_rows, pattern.num_columns, std::vector<EdgeOffset>(pattern.num_rows + 1), {}, {}};
  auto const append = [&](PlaceNumber place, EdgeOffset source) {
    changed.column_indices.push_back(static_cast<NeuronIndex>(place % pattern.num_columns));
    changed.row_pointers[place / pattern.num_columns + 1] = changed.column_indices.size();
    result.sources.push_back(source);
  };
  auto next_dropped = dropped.begin();
  auto next_grown = grown.begin();
  for_each_place(pattern, [&](EdgeOffset edge, PlaceNumber place) {
    for (; next_grown != grown.end() && *next_grown < place; ++next_grown) append(*next_grown, RegrownPattern::grown);
    if (next_dropped != dropped.end() && *next_dropped == edge) {
      ++next_dropped;
    } else {
      append(place, edge);
    }
  });
  for (; next_grown != grown.end(); ++next_grown) append(*next_grown, RegrownPattern::grown);
  for (std::size_t row = 0; row < changed.num_rows; ++row) // rows without edges
    changed.row_pointers[row + 1] = std::max(changed.row_pointers[row + 1], changed.row_pointers[row]);
  return result;
}

std::vector<double> carried(std::vector<double> const& numbers, std::span<EdgeOffset const> sources) {
  std::vector<double> moved;
  moved.reserve(sources.size());
  for (auto const source : sources) moved.push_back(source == RegrownPattern::grown ? 0.0 : numbers[source]);
  return moved;
}

PatternCount regrow(Layer& layer, std::vector<std::vector<double>>& moments, std::span<EdgeOffset const> dropped,
                    std::span<PlaceNumber const> grown) {
  auto const left = places_of(layer.weights, dropped);
  PatternCount count{dropped.size(), 0};
  for (auto const place : grown) count.returned += std::ranges::binary_search(left, place) ? 1 : 0;
  auto result = regrown(layer.weights, dropped, grown);
  result.pattern.values = carried(layer.weights.values, result.sources);
  layer.weights = std::move(result.pattern);
  for (auto& moment : moments) moment = carried(moment, result.sources);
  return count;
}

} // namespace varve
