#pragma once

#include "network/network.hpp"
#include "passes/equal_neurons.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace varve {

/// The passes to apply to the outputs of one layer.
struct OutputPasses {
  bool merge_neurons = true;
  bool fold_constants = true;
};

/// A layer whose inputs have been renamed and whose outputs have been folded and merged.
struct RewrittenLayer {
  Layer layer;
  NeuronMap outputs;
  std::size_t merged_neurons = 0;   ///< number of outputs merged into an earlier one
  std::size_t constant_neurons = 0; ///< number of outputs folded into constants
};

/// Rewrites a valid layer on all host threads, in time linear in its edges, outputs and inputs:
///   - Inputs get the numbers of the map; edges whose inputs were merged are added up in ascending order of the
///     input.
///   - Edges from constants join the bias: bias + (fma-chain of weight * constant from 0, ascending).
///   - Edges of weight 0, summed or not, are removed.
///   - fold_constants: outputs without edges become constants, activation(bias).
///   - merge_neurons: outputs with equal inputs, weights and bias, bit for bit, are merged into the first of them.
/// `firsts` are firsts_of_equals() the layer, or none to merge nothing.
/// The result is canonical, see make_canonical(). Returns nullopt if a sum of weights or a bias exceeds float's range:
/// then the previous layer must stay as it was.
std::optional<RewrittenLayer> rewrite(Layer layer, std::vector<NeuronIndex> firsts, NeuronMap const& inputs,
                                      OutputPasses passes, NeuronHash hash);

/// Repeats the rewrite of a layer whose output map is known already; runs on the calling thread only.
Layer rewrite(Layer const& layer, NeuronMap const& inputs, NeuronMap const& outputs);

/// Stores equal weights once, equal biases once, and no weight if there is no edge.
void make_canonical(Layer& layer);

/// A layer of one neuron that reads nothing and is always 0.
Layer stand_in(std::size_t num_inputs, Activation const& activation);

// Finds the neurons that nothing reads and drops them.

/// For each input of the layer whether any output reads it; empty if all inputs are read.
std::vector<bool> unless_all_read(SparseMatrix const& weights);

/// Drops the outputs of a canonical layer that are not marked. If none is marked, one output that reads nothing
/// remains.
void keep_outputs(Layer& layer, std::vector<bool> const& is_kept);

/// Removes the inputs that are not marked, which no output may read, and renumbers the rest; at least one input
/// remains.
void keep_inputs(Layer& layer, std::vector<bool> const& is_kept);

/// Maps the neurons that are not marked to kUnread; is_kept has one element for each of the map's width().
void keep_neurons(NeuronMap& map, std::vector<bool> const& is_kept);

} // namespace varve
