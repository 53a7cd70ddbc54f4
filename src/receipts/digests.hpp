#pragma once

#include "io/checksum.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace varve {

/// SHA-256 of data in a canonical form, which docs/audit.md defines: it depends neither on the format of a file nor on
/// how a run was divided.

/// The digest of a network: of all layers in order, each with its shape, activation, biases, edges and weights. Reads
/// each layer once, several at a time. Throws what the source throws.
Digest network_digest(NetworkSource const& network);

/// The digests of one sample: of its numbers, and of its last activations, each with the number of the sample.
struct SampleLeaves {
  Digest input{};
  Digest output{};

  bool operator==(SampleLeaves const&) const = default;
};

/// By sample of a batch: SampleLeaves::input.
std::vector<Digest> input_digests(SampleBatch const& samples);

/// SampleLeaves::output of sample `number` (from 0), whose last activations are in this row of a matrix
/// [samples, outputs].
Digest output_digest(SparseMatrix const& activations, std::size_t row, SampleIndex number);

/// The leaves of the samples of a batch. `activations`: their last activations, shape [samples of the batch, outputs].
std::vector<SampleLeaves> leaves_of(SampleBatch const& samples, SparseMatrix const& activations);

/// The root of a Merkle tree over one of both digests of each sample, in order. The tree has the shape of RFC 6962: the
/// left part of n leaves has the largest power of two below n.
Digest root_of(std::span<SampleLeaves const> leaves, Digest SampleLeaves::*digest);

} // namespace varve
