#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Neighbouring outputs of a layer whose gradients at all places are in memory at the same time.
struct GrowthBlock {
  std::size_t layer;
  std::size_t first_output;
  std::size_t num_outputs;
  std::size_t first_sum; ///< index of the block's first gradient in memory

  bool operator==(GrowthBlock const&) const = default;
};

/// Memory limits of the search for the largest gradients among free places (PatternKind::rigl), which visits the places
/// block by block.
struct GrowthLimits {
  std::size_t bytes_per_sum = 0; ///< memory for the gradient of one place: partial sums, total and candidate
  std::size_t max_sums = 0;      ///< most gradients in memory at a time
};

/// The limits for mini-batches of num_leaves leaves in `bytes` bytes; at least one output of the widest layer fits.
GrowthLimits growth_limits(Network const& network, std::size_t num_leaves, std::size_t scalar_bytes, std::size_t bytes);

/// Cuts the layers with growing[layer] into blocks of at most max_sums places (at least one output). Returns a list of
/// blocks for each pass of the mini-batch through the network. If the mini-batch is one micro-batch, there is one pass,
/// and each block begins at sum 0, because its gradients are complete at once. Otherwise all blocks of a pass are in
/// memory until the last micro-batch. Blocks of a layer ascend over all passes. The first block of a layer has about
/// 16384 places; each other block has at most as many as all blocks before it. Those blocks raise the limit that
/// candidates must exceed, so each block yields about as many candidates as are wanted in total.
std::vector<std::vector<GrowthBlock>> growth_passes(Network const& network, std::vector<bool> const& growing,
                                                    std::size_t max_sums, bool is_one_micro_batch);

} // namespace varve
