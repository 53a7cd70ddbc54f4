#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace varve {

/// Divides the leaves of a mini-batch (network/leaf.hpp) among ranks, by their speed. Rank r takes the leaves
/// [cuts[r], cuts[r + 1]). Shares decide who computes what and no bit of a result; all ranks must hold equal objects.
class LeafShares {
public:
  /// speeds: leaves per second of each rank, in any unit, which stay; empty: ranks begin with equal speeds and
  /// measure() changes them. Throws UsageError unless there is a positive finite speed for each rank.
  LeafShares(std::size_t num_ranks, std::vector<double> const& speeds);

  /// num_ranks + 1 ascending numbers from 0 to num_leaves. Every rank gets a leaf if there are enough. The cuts are
  /// multiples of the largest power of two with which a step takes at most 5 % longer than with the best cuts: ranks
  /// then hold few, large subtrees, and small changes of speed move no cut.
  std::vector<std::size_t> cuts(std::size_t num_leaves) const;

  /// Takes into account how long each rank computed in a step, in seconds, and with how many leaves. The time per leaf
  /// is smoothed over about five steps; ranks without leaves keep theirs.
  void measure(std::vector<double> const& seconds, std::vector<std::size_t> const& cuts);

private:
  std::vector<double> seconds_per_leaf() const;

  bool is_fixed_;
  std::vector<std::optional<double>> seconds_; ///< per leaf; empty: not known yet
};

} // namespace varve
