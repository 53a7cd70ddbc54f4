#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace varve {

/// Structure of one layer, found without running it. The degree of an output is the number of inputs it reads.
struct LayerAnalysis {
  std::size_t num_inputs = 0;
  std::size_t num_outputs = 0;
  EdgeOffset num_edges = 0;
  EdgeOffset min_degree = 0;
  double mean_degree = 0.0; ///< 0 for a layer without outputs
  EdgeOffset max_degree = 0;
  /// Number of distinct input lists. A pattern group is the set of outputs that share one input list, even an empty
  /// one.
  std::size_t num_pattern_groups = 0;
  std::size_t largest_pattern_group = 0; ///< number of outputs in the largest pattern group
  std::size_t num_distinct_neurons = 0;  ///< number of outputs that differ in input list, weights or bias, bit for bit
  std::size_t num_empty_outputs = 0;     ///< number of outputs that read no input
  std::size_t num_unread_inputs = 0;     ///< number of inputs that no output reads
  bool is_iso = false; ///< true if the layer has more than one edge and all weights are equal, however they are stored
  bool keeps_zero = false; ///< true if a dead sample (all zeros) stays dead through this layer

  bool operator==(LayerAnalysis const&) const = default;
};

/// Structure of all layers and their totals.
struct NetworkAnalysis {
  std::vector<LayerAnalysis> layers;
  EdgeOffset num_edges = 0;
  EdgeOffset min_degree = 0;
  double mean_degree = 0.0; ///< mean over all outputs of all layers
  EdgeOffset max_degree = 0;
  std::size_t num_neurons = 0; ///< number of outputs of all layers
  std::size_t num_distinct_neurons = 0;
  std::size_t num_empty_outputs = 0;
  std::size_t num_unread_inputs = 0;
  bool keeps_zero = false; ///< true if every layer keeps zero, so that a dead sample stays dead to the end

  bool operator==(NetworkAnalysis const&) const = default;
};

/// Analyses a valid layer in time linear in its edges, inputs and outputs.
LayerAnalysis analyse(Layer const& layer);

/// What outputs are compared by. `weights`: one per input, or none if all outputs that are compared have the same.
struct ComparedOutput {
  std::span<NeuronIndex const> inputs;
  std::span<double const> weights = {};
  double bias = 0.0;
};
using CompareOutput = std::function<ComparedOutput(std::size_t)>;

/// The hash of an output; outputs with equal hashes are compared in full. Only tests that want collisions use another.
using OutputHash = std::uint64_t (*)(ComparedOutput const&);
std::uint64_t output_hash(ComparedOutput const& output);

/// For each of num_outputs outputs the first one that equals it, bit for bit. All host threads compare.
std::vector<NeuronIndex> firsts_of_equals(std::size_t num_outputs, CompareOutput const& output,
                                          OutputHash hash = output_hash);

/// The same of a valid layer. Equal outputs have equal values in any arithmetic.
std::vector<NeuronIndex> firsts_of_equals(Layer const& layer, OutputHash hash = output_hash);

/// For each row of a matrix the first one with the same columns.
std::vector<NeuronIndex> firsts_of_equal_lists(SparseMatrix const& matrix);

/// Analyses every layer; a few layers are in memory at a time, one per host thread. Throws what the source throws, and
/// InputError if a layer does not take as many inputs as the layer before it has outputs.
NetworkAnalysis analyse(NetworkSource const& source);

} // namespace varve
