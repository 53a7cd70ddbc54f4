#pragma once

#include "core/types.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace varve {

/// Maps the neurons of one layer of a source to those of the rewritten layer. Merged neurons share a number; numbers
/// ascend with the first neuron of each.
struct NeuronMap {
  /// Removed: the neuron always equals `constants[i]`.
  static constexpr NeuronIndex kConstant = std::numeric_limits<NeuronIndex>::max();
  static constexpr NeuronIndex kUnread = kConstant - 1; ///< removed: nothing reads the neuron

  std::size_t num_before = 0;   ///< neurons of the source's layer
  std::size_t num_numbered = 0; ///< neurons that remain
  /// One per source neuron: its new number, kConstant or kUnread; empty if all keep their numbers.
  std::vector<NeuronIndex> numbers;
  std::vector<double> constants; ///< one per source neuron, valid for kConstant; empty if there is no constant

  static NeuronMap identity(std::size_t neurons) { return {neurons, neurons, {}, {}}; }

  bool is_identity() const { return numbers.empty() && num_before == num_numbered; }
  NeuronIndex number(std::size_t neuron) const {
    return numbers.empty() ? static_cast<NeuronIndex>(neuron) : numbers[neuron];
  }
  /// True if all neurons are gone. One neuron that reads nothing and that nothing reads then stands in for them, so
  /// that no layer becomes empty.
  bool is_stand_in() const { return num_before > 0 && num_numbered == 0; }
  std::size_t width() const { return is_stand_in() ? 1 : num_numbered; } ///< number of outputs of the rewritten layer
};

/// Hash of a neuron; neurons with equal hashes are compared in full. `weights` has one element per input, or none if
/// all neurons compared have the same weights.
using NeuronHash = std::uint64_t (*)(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

/// The default hash of a neuron; only tests that want collisions use another.
std::uint64_t neuron_hash(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

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
/// The result is canonical, see make_canonical(). Returns nullopt if a sum of weights or a bias exceeds float's range:
/// then the previous layer must stay as it was.
std::optional<RewrittenLayer> rewrite(Layer layer, NeuronMap const& inputs, OutputPasses passes, NeuronHash hash);

/// Repeats the rewrite of a layer whose output map is known already; runs on the calling thread only.
Layer rewrite(Layer const& layer, NeuronMap const& inputs, NeuronMap const& outputs);

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

/// Stores equal weights once, equal biases once, and no weight if there is no edge.
void make_canonical(Layer& layer);

} // namespace varve
