#pragma once

#include "network/analysis.hpp"
#include "network/layer_memory.hpp"

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
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

/// The rows of a layer with inputs renamed, edges whose inputs were merged added up and edges from constants in the
/// bias, as ReducedNetwork says. Chunks of rows are built independently, on all host threads.
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

/// The exact rewrites to apply to a network.
struct NetworkPasses {
  bool merge_neurons = true;  ///< merge neurons of a layer with equal inputs, weights and bias
  bool fold_constants = true; ///< fold neurons that read nothing into the biases of the next layer
  bool drop_unread = true;    ///< drop neurons that no neuron of the next layer reads
  bool merge_outputs = true;  ///< apply merge_neurons to the last layer, too; without it output_map() is the identity
};

/// The effect of the passes, summed over all layers.
struct ReductionReport {
  std::size_t neurons_before = 0; ///< outputs of all layers
  std::size_t neurons_after = 0;
  EdgeOffset edges_before = 0;
  EdgeOffset edges_after = 0;
  /// Neurons removed by merging, by folding and by dropping.
  std::size_t merged_neurons = 0;
  std::size_t constant_neurons = 0;
  std::size_t unread_neurons = 0;
  double seconds = 0.0;      ///< time of the rewrite, including reading the source
  double read_seconds = 0.0; ///< of it, time in which it waited for layers of the source
};

struct RewrittenLayer;

/// A network rewritten by exact passes, and the map back to the source's outputs.
///
/// A sweep from the first layer to the last merges equal neurons of a layer (their weights add up in the next layer, in
/// double and in ascending order, which may make its neurons equal in turn), folds neurons without edges into constants
/// (weight * value joins the biases of the next layer), and removes edges of weight 0. A sweep back from the last layer
/// drops neurons that nothing reads, then those that only they read. The inputs of the first layer stay as they are;
/// the outputs of the last layer are merged, but neither folded nor dropped. A layer that would lose all neurons keeps
/// one, without edges and with bias 0.
///
/// The last activations, expanded by output_map(), are those of the source up to the rounding of the terms added up in
/// advance; they are bit for bit equal if these sums need no rounding (weights and biases of few bits). In double the
/// categories are therefore those of the source, unless a sum meets its threshold up to rounding: then the source's sum
/// and the merged one may fall on either side, in any precision, and only exact arithmetic (reference/verdict.hpp)
/// tells which is right. For example, three equal neurons of 0.86, read with weights 0.75, 0.83 and 0.54 and bias
/// -1.8232, give 0 in the source and 2.2e-16 here; the stored numbers add up to 3.6e-17. Likewise, w * x - w * x of two
/// equal neurons need not be 0 in the source and is 0 here. Edges of weight 0 matter for infinite activations only.
///
/// Layers are canonical: inputs ascend; equal weights and equal biases are stored once. Layers are kept in memory up to
/// `keep_bytes` in all (12 bytes per edge, 4 if all weights of the layer are equal, and 8 or 16 per neuron); the others
/// are rewritten from the source whenever they are read. The source must outlive this object. If the passes find
/// nothing, or if a sum of weights or a bias would exceed float's range, every layer is the source's, as stored there.
class ReducedNetwork final : public NetworkSource {
public:
  /// Reads the layers in order, each once; a layer that is not kept is read again if it loses unread neurons. Layers
  /// that other threads read ahead take up to `ahead_bytes`. `hash` affects only how fast equal neurons are found.
  /// Throws what the source throws, and InputError if a layer does not take as many inputs as the layer before it has
  /// outputs.
  ReducedNetwork(NetworkSource const& source, NetworkPasses passes, std::size_t keep_bytes, std::size_t ahead_bytes = 0,
                 OutputHash hash = output_hash);

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;

  /// For each output of the source's last layer the equal output of this network's last layer.
  std::vector<NeuronIndex> const& output_map() const { return output_map_; }

  ReductionReport const& report() const { return report_; }

  /// True if the passes removed a neuron or an edge.
  bool found_any() const {
    return report_.neurons_after < report_.neurons_before || report_.edges_after < report_.edges_before;
  }

private:
  /// The stored part of a rewritten layer. The map is missing if this layer and the next one are in memory.
  struct Entry {
    std::optional<Layer> layer;
    std::optional<NeuronMap> outputs;
    /// Outputs that the next layer reads; empty if it reads all, and after the backward sweep.
    std::vector<bool> is_read;
  };

  /// Returns false if a sum was too large; then only a part of the network has been rewritten.
  bool sweep_forwards(NetworkPasses passes, std::size_t keep_bytes, std::size_t ahead_bytes, OutputHash hash);
  void sweep_backwards();
  /// Uses the source unchanged; counts its neurons and edges.
  void take_source(std::size_t ahead_bytes);

  LayersAhead::StudiedLayer next_of_source(LayersAhead& ahead, std::size_t number, std::size_t outputs_before);
  void count(RewrittenLayer const& rewritten);
  /// Keeps the layer in memory if it takes at most `keep_bytes`, and its map in any case. Returns the bytes that the
  /// layer takes, or 0 if it is not kept.
  std::size_t store(RewrittenLayer rewritten, std::size_t number, std::size_t keep_bytes);
  void drop_outputs(std::size_t number, std::vector<bool> const& is_read);
  Layer rewritten(std::size_t number) const;

  NetworkSource const& source_;
  std::vector<Entry> entries_; ///< one per layer; empty if the passes found nothing
  std::vector<NeuronIndex> output_map_;
  ReductionReport report_;
};

} // namespace varve
