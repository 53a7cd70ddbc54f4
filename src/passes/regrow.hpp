#pragma once

#include "network/network.hpp"
#include "network/pattern_change.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varve {

/// A place of a layer, numbered output * num_inputs + input.
using PlaceNumber = std::uint64_t;

/// A free place with the absolute gradient that its weight would have; a gradient that is no number counts as 0.
struct GrowthCandidate {
  PlaceNumber place;
  double magnitude;
};

/// Finds the `count` candidates with the largest magnitudes in a stream of them, of equal ones those with the lowest
/// places, in memory for about 2 * count candidates.
class BestCandidates {
public:
  explicit BestCandidates(std::size_t count) : count_(count) {}

  /// Adds candidates, in any order.
  void add(std::span<GrowthCandidate const> candidates);

  /// The magnitude above which a candidate changes the result, if its place is higher than all places added before;
  /// nullopt: every candidate does.
  std::optional<double> limit() const;

  /// The places of the best candidates, ascending.
  std::vector<PlaceNumber> places() const;

  std::size_t count() const { return count_; }

private:
  void shrink();

  std::size_t count_;
  std::vector<GrowthCandidate> best_; ///< after add(): at most count_, the worst last if there are count_
};

/// The numbers of the `count` edges with the smallest absolute weights, ascending. Of equal ones, the highest numbers
/// are taken. The matrix has at least `count` edges.
std::vector<EdgeOffset> smallest_edges(SparseMatrix const& weights, EdgeOffset count);

/// The places of these edges, whose numbers ascend.
std::vector<PlaceNumber> places_of(SparseMatrix const& pattern, std::span<EdgeOffset const> edges);

/// `dropped.size()` different places without an edge after `dropped` edges are gone, ascending, each choice equally
/// likely: drawn from the stream of this event and layer, as network/pattern_change.hpp says.
std::vector<PlaceNumber> random_places(SparseMatrix const& pattern, std::span<EdgeOffset const> dropped,
                                       PatternEvent const& event, std::size_t layer);

/// A pattern after a change.
struct RegrownPattern {
  static constexpr EdgeOffset grown = ~EdgeOffset{0}; ///< stands for a new edge in `sources`

  SparseMatrix pattern;            ///< without values
  std::vector<EdgeOffset> sources; ///< for each edge, its number before the change
};

/// The pattern without the edges `dropped` and with edges at the places `grown`, which are free then. Both ascend.
RegrownPattern regrown(SparseMatrix const& pattern, std::span<EdgeOffset const> dropped,
                       std::span<PlaceNumber const> grown);

/// The numbers of the edges after a change: those of old edges, and 0 for new ones.
std::vector<double> carried(std::vector<double> const& numbers, std::span<EdgeOffset const> sources);

/// Carries out a change of one layer, whose weights and moments ([moment][edge]) are one per edge: drops `dropped`, and
/// new edges at `grown` get weight 0 and moments 0. Returns what changed.
PatternCount regrow(Layer& layer, std::vector<std::vector<double>>& moments, std::span<EdgeOffset const> dropped,
                    std::span<PlaceNumber const> grown);

} // namespace varve
