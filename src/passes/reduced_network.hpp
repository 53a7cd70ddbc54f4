#pragma once

#include "core/types.hpp"
#include "network/network.hpp"
#include "passes/layer_rewrite.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Which exact rewrites of a network are looked for.
struct NetworkPasses {
  bool merge_neurons = true;  ///< neurons of a layer with equal inputs, weights and bias become one
  bool fold_constants = true; ///< neurons that read nothing become part of the next layer's biases
  bool drop_unread = true;    ///< neurons that no neuron of the next layer reads go
  bool merge_outputs = true;  ///< in the last layer too (where merge_neurons); else output_map() is the identity
};

/// What the passes found, all layers together.
struct ReductionReport {
  std::size_t neurons_before = 0; ///< outputs of all layers
  std::size_t neurons_after = 0;
  EdgeOffset edges_before = 0;
  EdgeOffset edges_after = 0;
  std::size_t merged_neurons = 0; ///< these three: neurons that went because of each pass
  std::size_t constant_neurons = 0;
  std::size_t unread_neurons = 0;
  double seconds = 0.0; ///< that the search took, reading the source included
};

/// A network rewritten by exact passes, and the way back.
///
/// In one sweep from the first layer to the last, equal neurons of a layer become one (their weights add up in the next
/// layer, in double and in ascending order, which may make its neurons equal in turn), neurons without edges become
/// constants (weight * value joins the biases of the next layer), and edges of weight 0 go. Back from the last layer,
/// neurons that nobody reads go, and then those that only they read. The inputs of the first layer stay as they are;
/// the outputs of the last one are merged, but neither folded nor dropped. A layer of which all neurons would go keeps
/// one, without edges and with bias 0.
///
/// The result is a network in its own right: its last activations, expanded by output_map(), are those of the source up
/// to the rounding of what was added up in advance, and the very same bits where these sums need no rounding (weights
/// and biases of few bits). So in double the categories are the source's, unless a sum meets its threshold up to
/// rounding: then the source's sum and the merged one may fall on either side, in any precision, and which of them is
/// right is not known without exact arithmetic (reference/verdict.hpp). Three equal neurons of 0.86, read with weights
/// 0.75, 0.83 and 0.54 and bias -1.8232, give 0 in the source and 2.2e-16 here; the numbers stored add up to 3.6e-17.
/// Likewise w * x - w * x of two equal neurons need not be 0 in the source and is 0 here. Edges of weight 0 matter for
/// infinite activations only.
///
/// Layers are canonical: ascending inputs; equal weights, and equal biases, stored once. They come from memory or,
/// those that would take more than `keep_bytes` in all (12 bytes per edge, 4 where all weights of the layer are equal,
/// and 8 or 16 per neuron), are rewritten again from the source whenever asked for. The source must outlive this
/// object. A network in which nothing is found is the source itself, layer by layer, as it is stored there; so is one
/// in which a sum of weights would leave float's range or a bias that of double.
class ReducedNetwork final : public NetworkSource {
public:
  /// Reads the layers in order, each once, and one at a time; those that lose unread neurons and are not kept are read
  /// again. Throws what the source throws, and InputError if two neighbouring layers do not fit together. The hash
  /// decides how fast equal neurons are found, not which.
  ReducedNetwork(NetworkSource const& source, NetworkPasses passes, std::size_t keep_bytes,
                 NeuronHash hash = neuron_hash);

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;

  /// For each output of the source's last layer, the output of this network's last layer that equals it.
  std::vector<NeuronIndex> const& output_map() const { return output_map_; }

  ReductionReport const& report() const { return report_; }

  /// Whether some neuron or edge went.
  bool found_any() const {
    return report_.neurons_after < report_.neurons_before || report_.edges_after < report_.edges_before;
  }

private:
  /// What is stored of a rewritten layer. The map is missing if the layer and the next one are in memory.
  struct Entry {
    std::optional<Layer> layer;
    std::optional<NeuronMap> outputs;
    std::vector<bool> is_read; ///< which of the outputs the next layer reads; empty if all, or once that is settled
  };

  /// False if a sum was too large; then only part of the network has been seen.
  bool sweep_forwards(NetworkPasses passes, std::size_t keep_bytes, NeuronHash hash);
  void sweep_backwards();
  /// Leaves everything as it is, and counts it.
  void take_source();

  Layer next_of_source(std::size_t number, std::size_t outputs_before);
  void count(RewrittenLayer const& rewritten);
  std::size_t store(RewrittenLayer rewritten, std::size_t number, std::size_t keep_bytes); ///< bytes that it takes
  void drop_outputs(std::size_t number, std::vector<bool> const& is_read);
  Layer rewritten(std::size_t number) const;

  NetworkSource const& source_;
  std::vector<Entry> entries_; ///< one per layer; none if nothing was found
  std::vector<NeuronIndex> output_map_;
  ReductionReport report_;
};

} // namespace varve
