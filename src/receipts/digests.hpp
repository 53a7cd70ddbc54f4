#pragma once

#include "io/checksum.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/optimizer.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve {

/// SHA-256 of data in a canonical form, which docs/audit.md defines: it depends neither on the format of a file nor on
/// how a run was divided.

/// The digest of a network: of all layers in order, each with its shape, activation, biases, edges and weights. Reads
/// each layer once, several at a time. Throws what the source throws.
Digest network_digest(NetworkSource const& network);

/// The digests of all layers in order, and the digest of the network that has them.
std::vector<Digest> layer_digests(Network const& network);
Digest network_digest(std::vector<Digest> const& layers);

/// A network whose layers are hashed when they are first read, by the threads that read them.
class DigestedNetwork final : public NetworkSource {
public:
  explicit DigestedNetwork(std::unique_ptr<NetworkSource> source);

  std::string name() const override { return source_->name(); }
  std::size_t num_layers() const override { return source_->num_layers(); }
  Layer layer(std::size_t number) const override;
  void before_layer() const override { source_->before_layer(); }

  /// network_digest(), for which only layers are read that nobody has read. Not while others read some.
  Digest digest() const;

private:
  std::unique_ptr<NetworkSource> source_;
  mutable std::mutex guard_;
  mutable std::vector<std::optional<Digest>> digests_; ///< by layer
};

/// The digests of one sample: of its numbers, and of its last activations, each with the number of the sample.
struct SampleLeaves {
  Digest input{};
  Digest output{};

  bool operator==(SampleLeaves const&) const = default;
};

/// By sample of a batch: SampleLeaves::input.
std::vector<Digest> input_digests(SampleBatch const& samples);

/// By sample: SampleLeaves::output. `activations`: last activations of neighbouring samples, shape [samples, outputs].
std::vector<Digest> output_digests(SampleSet const& activations);

/// SampleLeaves::output of sample `number` (from 0), whose last activations are in this row of a matrix
/// [samples, outputs].
Digest output_digest(SparseMatrix const& activations, std::size_t row, SampleIndex number);

/// One of both digests of each sample, in order.
std::vector<Digest> digests_of(std::span<SampleLeaves const> leaves, Digest SampleLeaves::*digest);

/// The root of a Merkle tree over some leaves, in order. The tree has the shape of RFC 6962: the left part of n leaves
/// has the largest power of two below n. So neighbours are joined level by level.
Digest root_of(std::vector<Digest> leaves);
Digest root_of(std::span<SampleLeaves const> leaves, Digest SampleLeaves::*digest);

/// The neighbours of a leaf and of the nodes above it, from the leaf up to the root: what another one needs to compute
/// the root from this leaf. A node without neighbour adds none.
std::vector<Digest> path_of(std::vector<Digest> leaves, std::size_t place);

/// The number of neighbours of a leaf at this place, of `count`.
std::size_t path_length(std::size_t place, std::size_t count);

/// The root to which a path leads from a leaf at this place, of `count`; the path must have its length.
Digest root_by(Digest const& leaf, std::size_t place, std::size_t count, std::span<Digest const> path);

/// The digests of the moments of an optimizer, by layer.
std::vector<Digest> moment_digests(OptimizerState const& state);

/// The digest of the labels of all samples, or the root over their targets. first_sample: the number of the first.
Digest answers_digest(Answers const& answers, SampleIndex first_sample);

/// The digest of the order of samples after a step with these rows, from that before it.
Digest order_digest(Digest const& before, std::span<std::uint64_t const> rows);

} // namespace varve
