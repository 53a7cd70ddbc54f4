#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// What can be said about one layer without running it. A degree is the number of inputs that an output reads.
struct LayerAnalysis {
  std::size_t num_inputs = 0;
  std::size_t num_outputs = 0;
  EdgeOffset num_edges = 0;
  EdgeOffset min_degree = 0;
  double mean_degree = 0.0; ///< 0 for a layer without outputs
  EdgeOffset max_degree = 0;
  std::size_t num_pattern_groups =
      0; ///< distinct input lists: a group is all outputs that share one (even an empty one)
  std::size_t largest_pattern_group = 0; ///< number of outputs in the largest group
  std::size_t num_distinct_neurons = 0;  ///< outputs that differ in input list, weights or bias, bit for bit
  std::size_t num_empty_outputs = 0;     ///< outputs that read no input
  std::size_t num_unread_inputs = 0;     ///< inputs that no output reads
  bool is_iso = false;                   ///< more than one edge, and all weights are equal, however they are stored
  bool keeps_zero = false;               ///< a sample without nonzeros is still without one after this layer

  bool operator==(LayerAnalysis const&) const = default;
};

/// The layers of a network and what they sum up to.
struct NetworkAnalysis {
  std::vector<LayerAnalysis> layers;
  EdgeOffset num_edges = 0;
  EdgeOffset min_degree = 0;
  double mean_degree = 0.0; ///< over all outputs of all layers
  EdgeOffset max_degree = 0;
  std::size_t num_neurons = 0; ///< outputs of all layers
  std::size_t num_distinct_neurons = 0;
  std::size_t num_empty_outputs = 0;
  std::size_t num_unread_inputs = 0;
  bool keeps_zero = false; ///< every layer does, so a dead sample is dead for ever

  bool operator==(NetworkAnalysis const&) const = default;
};

/// Analyses a valid layer in time proportional to its edges, inputs and outputs.
LayerAnalysis analyse(Layer const& layer);

/// For each output of a valid layer the first output that is the same neuron: equal in input list, weights and bias,
/// bit for bit. Whatever the arithmetic, both have the same value.
std::vector<NeuronIndex> firsts_of_equal_outputs(Layer const& layer);

/// Analyses every layer, several at a time but never all in memory. Throws what the source throws, and InputError if
/// two neighbouring layers do not fit together.
NetworkAnalysis analyse(NetworkSource const& source);

} // namespace varve
