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

/// Where the neurons of one layer of a source are in the rewritten layer. Neurons that became one share a number; the
/// numbers ascend with the first neuron of each.
struct NeuronMap {
  static constexpr NeuronIndex kConstant = std::numeric_limits<NeuronIndex>::max(); ///< gone: always `constants[i]`
  static constexpr NeuronIndex kUnread = kConstant - 1;                             ///< gone: nobody needs it

  std::size_t num_before = 0;       ///< neurons of the source's layer
  std::size_t num_numbered = 0;     ///< neurons that are left
  std::vector<NeuronIndex> numbers; ///< [num_before] number, kConstant or kUnread; empty if each keeps its own
  std::vector<double> constants;    ///< [num_before] or empty if there is none

  static NeuronMap identity(std::size_t neurons) { return {neurons, neurons, {}, {}}; }

  bool is_identity() const { return numbers.empty() && num_before == num_numbered; }
  NeuronIndex number(std::size_t neuron) const {
    return numbers.empty() ? static_cast<NeuronIndex>(neuron) : numbers[neuron];
  }
  /// Where all neurons are gone, one that reads nothing and that nobody reads stands in for them, so that no layer
  /// becomes empty.
  bool is_stand_in() const { return num_before > 0 && num_numbered == 0; }
  std::size_t width() const { return is_stand_in() ? 1 : num_numbered; } ///< outputs of the rewritten layer
};

/// Fingerprint of a neuron, by which equal ones are found before they are compared in full. The weights are one per
/// input; or none, if all neurons that are compared have equal ones.
using NeuronHash = std::uint64_t (*)(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

/// The one that is used, except by tests that want collisions.
std::uint64_t neuron_hash(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

/// What may become of the outputs of one layer.
struct OutputPasses {
  bool merge_neurons = true;
  bool fold_constants = true;
};

/// A layer after its inputs were renamed and its outputs folded and merged.
struct RewrittenLayer {
  Layer layer;
  NeuronMap outputs;
  std::size_t merged_neurons = 0;   ///< outputs that became one with an earlier one
  std::size_t constant_neurons = 0; ///< outputs that were folded
};

/// Rewrites a valid layer, in time proportional to its edges, outputs and inputs, on all host threads:
///   - inputs get the numbers of the map; edges whose inputs became one are added up in ascending order of the input;
///   - edges from constants are taken into the bias: bias + (fma-chain of weight * constant from 0, ascending);
///   - edges of weight 0, added up or not, go;
///   - fold_constants: outputs without edges become constants, activation(bias);
///   - merge_neurons: outputs with equal inputs, weights and bias, bit for bit, become one, the first of them.
/// The result is canonical, see make_canonical(). Nothing, if a sum of weights is beyond float's range or a bias is not
/// finite: then the layer before must stay as it was.
std::optional<RewrittenLayer> rewrite(Layer layer, NeuronMap const& inputs, OutputPasses passes, NeuronHash hash);

/// The same layer once more, when it is known where its outputs go; on the calling thread only.
Layer rewrite(Layer const& layer, NeuronMap const& inputs, NeuronMap const& outputs);

/// For each input of the layer whether any output reads it; nothing at all if every one is read.
std::vector<bool> unless_all_read(SparseMatrix const& weights);

/// Drops the outputs of a canonical layer that are not marked; where none is marked, one that reads nothing stays.
void keep_outputs(Layer& layer, std::vector<bool> const& is_kept);

/// Renumbers the inputs of a layer when those that are not marked, which no output reads, go; one stays in any case.
void keep_inputs(Layer& layer, std::vector<bool> const& is_kept);

/// Marks as unread what is not marked to be kept; is_kept has an element for each of the map's width().
void keep_neurons(NeuronMap& map, std::vector<bool> const& is_kept);

/// Stores equal weights once, an equal bias once, and no weight at all if there is no edge.
void make_canonical(Layer& layer);

} // namespace varve
