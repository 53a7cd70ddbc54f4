#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve {

/// How training changes the pattern of edges:
///   keep: not at all
///   set:  drops the edges with the smallest absolute weights of each layer and adds as many at random places (Mocanu,
///         Mocanu, Stone, Nguyen, Gibescu and Liotta, "Scalable training of artificial neural networks with adaptive
///         sparse connectivity inspired by network science", 2018)
///   rigl: drops the same edges and adds as many at the places whose weights would have the largest absolute gradients
///         (Evci, Gale, Menick, Castro and Elsen, "Rigging the lottery: making all tickets winners", 2020)
enum class PatternKind { keep, set, rigl };

/// "keep", "set" or "rigl".
std::string to_string(PatternKind kind);

/// The kind with this name. Throws UsageError if there is none.
PatternKind parse_pattern_kind(std::string const& name);

/// One change of the pattern, before a step. In each layer that has a free place (a place is a pair of an output and an
/// input; it is free if it has no edge), edges_to_drop() edges are dropped and as many grow at places that are then
/// free, so a dropped edge may return. New edges begin with weight 0 and moments 0. All choices are made by the present
/// weights and by the gradients of the mini-batch of the step, summed as those of edges are; a gradient that is no
/// number counts as 0. Of equal weights, those of the lowest edge numbers stay; of equal gradients, the lowest places
/// win, where the number of a place is output * num_inputs + input.
struct PatternEvent {
  PatternKind kind = PatternKind::set; ///< set or rigl
  double fraction = 0.3;               ///< part of the edges of each layer that is dropped, from 0 to 1
  std::uint64_t seed = 1;              ///< seed of the places of `set`
  std::uint64_t number = 0;            ///< number of the event, which decides the random numbers of `set`
};

/// The edges that changes of the pattern moved.
struct PatternCount {
  std::uint64_t dropped = 0;  ///< number of dropped edges, and of new ones
  std::uint64_t returned = 0; ///< dropped edges that grew again at the same place

  PatternCount& operator+=(PatternCount const& other) {
    dropped += other.dropped;
    returned += other.returned;
    return *this;
  }
  bool operator==(PatternCount const&) const = default;
};

/// The number of edges that a change with this fraction drops from a layer: floor(fraction * num_edges + 1/2), or 0 if
/// every place has an edge.
EdgeOffset edges_to_drop(double fraction, EdgeOffset num_edges, EdgeOffset num_places);

/// The number of the random stream (RandomStream(event.seed, this number)) from which a layer draws the places of
/// PatternKind::set: a partial shuffle of Fisher and Yates of the list of free places, in the order of their numbers.
/// The n-th draw exchanges element n of the list with element n + below(length - n); the first elements are the result.
/// Streams of sample orders (training/recipe.hpp) have other numbers.
constexpr std::uint64_t growth_stream(PatternEvent const& event, std::size_t layer) {
  return (std::uint64_t{1} << 63U) | (event.number << 32U) | static_cast<std::uint64_t>(layer);
}

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
/// likely: drawn from the stream of this event and layer, see growth_stream().
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
