#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Neighbouring outputs of a layer whose places' gradients are in memory at a time.
struct GrowthBlock {
  std::size_t layer;
  std::size_t first_output;
  std::size_t num_outputs;
  std::size_t first_sum; ///< where the gradients of the block begin in memory

  bool operator==(GrowthBlock const&) const = default;
};

/// How the search for the largest gradients among free places (PatternKind::rigl) goes through all places in limited
/// memory. The gradients of a layer are never all in memory unless they fit.
struct GrowthLimits {
  std::size_t bytes_per_sum = 0; ///< memory for the gradient of one place: partial sums, total and list of candidates
  std::size_t most_sums = 0;     ///< gradients in memory at a time
};

/// The limits for mini-batches of num_leaves leaves on `bytes` of memory; at least one output of the widest layer fits.
GrowthLimits growth_limits(Network const& network, std::size_t num_leaves, std::size_t scalar_bytes, std::size_t bytes);

/// Cuts the layers with growing[layer] into blocks of at most most_sums places (at least one output), for one list of
/// blocks for each pass of the mini-batch through the network. A mini-batch that is one micro-batch needs one pass, and
/// each block begins at sum 0, because its gradients are complete at once. Else all blocks of a pass are in memory
/// until the last micro-batch. Blocks of a layer ascend over all passes. The first block of a layer has about 16384
/// places, each other one at most as many as all blocks before it: those raise the limit that candidates must exceed,
/// so that each block gives about as many candidates as are wanted in all.
std::vector<std::vector<GrowthBlock>> growth_passes(Network const& network, std::vector<bool> const& growing,
                                                    std::size_t most_sums, bool is_one_micro_batch);

} // namespace varve
