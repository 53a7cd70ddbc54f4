#pragma once

#include "engine/rank_exchange.hpp"
#include "network/loss.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// A subtree of leaves whose gradients a pass adds up. Sums of subtrees form a stack of arrays.
struct PassSubtree {
  std::size_t first_leaf = 0; ///< within the pass
  std::size_t num_leaves = 0;
  std::size_t place = 0;  ///< index in the stack of sums
  std::size_t merges = 0; ///< how often the two topmost sums of the stack are then replaced by their sum
};

/// Leaves that are computed together, forward and backward through the network: a micro-batch.
struct TrainingPass {
  std::size_t first_leaf = 0; ///< within the mini-batch
  std::size_t num_leaves = 0;
  std::vector<PassSubtree> subtrees; ///< only the last one may have merges
};

/// The passes over the leaves [first, last) of a mini-batch of num_leaves leaves, at most leaves_per_pass at a time.
/// Afterwards the stack holds the sums of subtrees_of(first, last, num_leaves) (network/leaf.hpp).
std::vector<TrainingPass> passes_of(std::size_t first, std::size_t last, std::size_t num_leaves,
                                    std::size_t leaves_per_pass);

/// The losses of the leaves that one rank has computed.
struct RankLosses {
  std::vector<double> leaves; ///< the sum over each leaf
  std::size_t num_samples = 0;
  std::size_t num_right = 0;
  double seconds = 0.0; ///< time to compute them

  /// Appends leaves with the losses of these samples; only the last leaf may have fewer than leaf_samples.
  void add(std::vector<double> const& losses, std::size_t leaf_samples);
};

/// The sum of all leaves by the tree over leaves (network/leaf.hpp).
LossSum sum_of(RankLosses const& losses);

/// The losses of all ranks, whose leaves follow each other in rank order. Collective.
std::vector<RankLosses> gather(RankExchange& exchange, RankLosses const& own);

/// The losses of several ranks as if one rank had computed them; seconds are added up over all ranks.
RankLosses joined(std::vector<RankLosses> const& ranks);

} // namespace varve
