#pragma once

#include "network/analysis.hpp"

#include <cstddef>
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

/// The numbers 0 to count - 1.
std::vector<NeuronIndex> ascending(std::size_t count);

/// The source neurons that remain, ascending: the first of each set of merged neurons.
std::vector<NeuronIndex> kept_neurons(NeuronMap const& map);

/// The rows of a layer with inputs renamed, edges whose inputs were merged added up and edges from constants in the
/// bias, as rewrite() says. Chunks of rows are built independently, on all host threads.
class RenamedRows {
public:
  /// Renames the given rows of the layer; they get the numbers 0, 1, ...
  RenamedRows(Layer const& layer, NeuronMap const& inputs, std::span<NeuronIndex const> rows, std::size_t num_chunks);

  std::size_t size() const { return num_rows_; }
  std::span<NeuronIndex const> inputs(std::size_t row) const { return part(row, chunk_of(row).inputs); }
  std::span<double const> weights(std::size_t row) const { return part(row, chunk_of(row).weights); }
  double bias(std::size_t row) const { return chunk_of(row).biases[row % rows_per_chunk_]; }

  /// True if all sums of weights and all biases are within float's range.
  bool are_in_range() const;

  /// Consecutive rows.
  struct Chunk {
    std::vector<EdgeOffset> row_pointers = {0};
    std::vector<NeuronIndex> inputs;
    std::vector<double> weights;
    std::vector<double> biases;
    bool is_in_range = true; ///< all sums of weights and biases of these rows are within float's range
  };

private:
  Chunk const& chunk_of(std::size_t row) const { return chunks_[row / rows_per_chunk_]; }

  template <class Element>
  std::span<Element const> part(std::size_t row, std::vector<Element> const& elements) const {
    auto const& pointers = chunk_of(row).row_pointers;
    auto const begin = static_cast<std::size_t>(pointers[row % rows_per_chunk_]);
    return {elements.data() + begin, static_cast<std::size_t>(pointers[row % rows_per_chunk_ + 1]) - begin};
  }

  std::size_t num_rows_;
  std::size_t rows_per_chunk_;
  std::vector<Chunk> chunks_;
};

/// For each row the first row that equals it.
std::vector<NeuronIndex> firsts_of_equals(RenamedRows const& rows, OutputHash hash);

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
/// The result is canonical: equal weights and equal biases are stored once. Returns nullopt if a sum of weights or a
/// bias exceeds float's range: then the previous layer must stay as it was.
std::optional<RewrittenLayer> rewrite(Layer layer, std::vector<NeuronIndex> firsts, NeuronMap const& inputs,
                                      OutputPasses passes, OutputHash hash);

/// Repeats the rewrite of a layer whose output map is known already; runs on the calling thread only.
Layer rewrite(Layer const& layer, NeuronMap const& inputs, NeuronMap const& outputs);

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
