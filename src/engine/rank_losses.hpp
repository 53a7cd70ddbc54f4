#pragma once

#include "engine/rank_exchange.hpp"
#include "network/loss.hpp"

#include <cstddef>
#include <vector>

namespace varve {

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
