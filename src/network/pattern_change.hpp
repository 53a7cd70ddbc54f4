#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

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

} // namespace varve
