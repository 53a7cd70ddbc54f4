#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <limits>
#include <vector>

namespace varve {

/// Neighbouring layers, or some neighbouring edges of a large layer, whose gradients are ready and travel between ranks
/// together; the last bundle of a large layer has the layer's biases. Edges (in training order) and outputs are
/// numbered through all layers of the network. Sums of gradients are stored bundle by bundle: first those of the
/// weights of its layers, then those of their biases.
struct GradientBundle {
  std::size_t first_layer = 0, num_layers = 0;
  std::size_t first_edge = 0, num_edges = 0;
  std::size_t first_output = 0, num_outputs = 0;

  std::size_t first_sum() const { return first_edge + first_output; }
  std::size_t num_sums() const { return num_edges + num_outputs; }
  /// Where the sums of an edge and of an output are stored.
  std::size_t sum_of_edge(std::size_t edge) const { return first_output + edge; }
  std::size_t sum_of_output(std::size_t output) const { return first_edge + num_edges + output; }
};

/// What one rank owns of a bundle: edges [first_edge, last_edge) and outputs [first_output, last_output), whose sums
/// are neighbours. The owner adds their gradients and takes their steps.
struct GradientPart {
  std::size_t first_sum = 0;
  std::size_t first_edge = 0, last_edge = 0;
  std::size_t first_output = 0, last_output = 0;

  std::size_t num_edges() const { return last_edge - first_edge; }
  std::size_t num_outputs() const { return last_output - first_output; }
  std::size_t num_sums() const { return num_edges() + num_outputs(); }
};

/// The division of a network's weights and biases into bundles, and of each bundle into parts of ranks. It follows from
/// the network, the number of ranks and the least size of a bundle alone.
class GradientParts {
public:
  static constexpr std::size_t one_bundle = std::numeric_limits<std::size_t>::max(); ///< for least_size

  static constexpr std::size_t least_sums = std::size_t(1) << 18U; ///< usually, for streamed weights

  /// The usual least size of bundles that ranks exchange: a quarter of the network, so that three quarters travel while
  /// layers below are computed, within [2^18, 2^22]. Each bundle costs about ten short kernels and copies, which on a
  /// GPU wait for a place between the long kernels of the passes: of twelve bundles, the last ones came late.
  static std::size_t least_sums_of(Network const& network);

  /// Bundles of whole layers have at least `least_size` weights and biases, except perhaps the first and those before
  /// large layers. Layers of more than most_edges edges are cut into bundles of at most as many.
  GradientParts(Network const& network, std::size_t num_ranks, std::size_t least_size,
                std::size_t most_edges = one_bundle);

  std::vector<GradientBundle> const& bundles() const { return bundles_; }
  std::size_t num_ranks() const { return num_ranks_; }
  /// The bundle of a layer, or the last one if it has several: sum_of_edge() and sum_of_output() of this one hold for
  /// the whole layer.
  GradientBundle const& bundle_of(std::size_t layer) const { return bundles_[bundle_of_layer_[layer]]; }
  /// The part of a bundle that a rank owns.
  GradientPart part(std::size_t bundle, std::size_t rank) const;

private:
  std::size_t num_ranks_;
  std::vector<GradientBundle> bundles_; ///< by ascending layers
  std::vector<std::size_t> bundle_of_layer_;
};

} // namespace varve
