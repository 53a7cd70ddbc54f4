#pragma once

#include "engine/rank_exchange.hpp"
#include "network/leaf.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace varve {

/// Neighbouring layers, or some neighbouring edges of a large layer, whose gradients are complete and exchanged
/// together; the last bundle of a large layer has the layer's biases. Edges (in training order) and outputs are
/// numbered through all layers of the network. Sums of gradients are stored bundle by bundle: first the weights of its
/// layers, then their biases.
struct GradientBundle {
  std::size_t first_layer = 0, num_layers = 0;
  std::size_t first_edge = 0, num_edges = 0;
  std::size_t first_output = 0, num_outputs = 0;

  std::size_t first_sum() const { return first_edge + first_output; }
  std::size_t num_sums() const { return num_edges + num_outputs; }
  /// Indices of the sums of an edge and of an output.
  std::size_t sum_of_edge(std::size_t edge) const { return first_output + edge; }
  std::size_t sum_of_output(std::size_t output) const { return first_edge + num_edges + output; }
};

/// One rank's part of a bundle: edges [first_edge, last_edge) and outputs [first_output, last_output), whose sums are
/// adjacent. The owner adds their gradients and steps their weights.
struct GradientPart {
  std::size_t first_sum = 0;
  std::size_t first_edge = 0, last_edge = 0;
  std::size_t first_output = 0, last_output = 0;

  std::size_t num_edges() const { return last_edge - first_edge; }
  std::size_t num_outputs() const { return last_output - first_output; }
  std::size_t num_sums() const { return num_edges() + num_outputs(); }
};

/// The division of a network's weights and biases into bundles, and of each bundle into parts of ranks. It depends only
/// on the network, the number of ranks and the least size of a bundle.
class GradientParts {
public:
  static constexpr std::size_t one_bundle = std::numeric_limits<std::size_t>::max(); ///< for min_size

  static constexpr std::size_t min_sums = std::size_t(1) << 18U; ///< default for streamed weights

  /// The default least size of bundles that ranks exchange: a quarter of the network, so that three quarters are
  /// exchanged while earlier layers are computed, within [2^18, 2^22]. Each bundle costs about ten short kernels and
  /// copies, which on a GPU wait between the long kernels of the passes: with twelve bundles, the last ones came late.
  static std::size_t min_sums_of(Network const& network);

  /// Bundles of whole layers have at least `min_size` weights and biases, except perhaps the first and those before
  /// large layers. Layers with more than max_edges edges are cut into bundles of at most max_edges edges.
  GradientParts(Network const& network, std::size_t num_ranks, std::size_t min_size,
                std::size_t max_edges = one_bundle);

  std::vector<GradientBundle> const& bundles() const { return bundles_; }
  std::size_t num_ranks() const { return num_ranks_; }
  /// The bundle of a layer, or its last one: sum_of_edge() and sum_of_output() of this bundle are valid for the whole
  /// layer.
  GradientBundle const& bundle_of(std::size_t layer) const { return bundles_[bundle_of_layer_[layer]]; }
  /// The part of a bundle that a rank owns.
  GradientPart part(std::size_t bundle, std::size_t rank) const;

private:
  std::size_t num_ranks_;
  std::vector<GradientBundle> bundles_; ///< ordered by layers
  std::vector<std::size_t> bundle_of_layer_;
};

/// Divides the leaves of a mini-batch (network/leaf.hpp) among ranks, by their speed. Rank r computes the leaves
/// [cuts[r], cuts[r + 1]). Shares change no bit of a result; all ranks must have equal objects.
class LeafShares {
public:
  /// speeds: constant leaves per second of each rank, in any unit; empty: ranks begin with equal speeds, which
  /// measure() updates. Throws UsageError unless there is a positive finite speed for each rank.
  LeafShares(std::size_t num_ranks, std::vector<double> const& speeds);

  /// num_ranks + 1 ascending numbers from 0 to num_leaves. Every rank gets a leaf if there are enough. The cuts are
  /// multiples of the largest power of two for which a step takes at most 5 % longer than with the best cuts: ranks
  /// then have few, large subtrees, and small changes of speed move no cut.
  std::vector<std::size_t> cuts(std::size_t num_leaves) const;

  /// Updates speeds with the seconds that each rank computed in a step, and its leaves. The time per leaf is smoothed
  /// over about five steps; ranks without leaves keep theirs.
  void measure(std::vector<double> const& seconds, std::vector<std::size_t> const& cuts);

private:
  std::vector<double> seconds_per_leaf() const;

  bool is_fixed_;
  std::vector<std::optional<double>> seconds_; ///< per leaf; empty: not measured yet
};

/// Division of a step that ranks share: the subtrees of leaves of each rank, numbered in the order of their leaves, and
/// the part of each bundle that a rank owns.
class StepShares {
public:
  StepShares(GradientParts const& parts, std::size_t rank) : parts_(&parts), rank_(rank) {}

  /// Assigns the leaves [cuts[r], cuts[r + 1]) to rank r.
  void set_cuts(std::vector<std::size_t> const& cuts) {
    cuts_ = cuts;
    std::vector<Subtree> all;
    first_subtree_.assign(1, 0);
    for (std::size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
      auto const own = subtrees_of(cuts[rank], cuts[rank + 1], cuts.back());
      all.insert(all.end(), own.begin(), own.end());
      first_subtree_.push_back(all.size());
    }
    merges_ = merges_of(all, cuts.back());
    places_.assign(1, 0);
    for (std::size_t bundle = 0; bundle < num_bundles(); ++bundle)
      places_.push_back(places_.back() + all.size() * own_part(bundle).num_sums());
  }

  std::vector<std::size_t> const& cuts() const { return cuts_; } ///< empty before set_cuts()
  std::size_t rank() const { return rank_; }
  std::size_t num_ranks() const { return first_subtree_.size() - 1; }
  std::size_t num_bundles() const { return parts_->bundles().size(); }

  std::size_t first_subtree(std::size_t rank) const { return first_subtree_[rank]; }
  std::size_t num_subtrees(std::size_t rank) const { return first_subtree_[rank + 1] - first_subtree_[rank]; }
  std::size_t num_subtrees() const { return first_subtree_.back(); }
  std::size_t max_subtrees() const { ///< the most subtrees of a rank, at least one
    std::size_t most = 1;
    for (std::size_t rank = 0; rank < num_ranks(); ++rank) most = std::max(most, num_subtrees(rank));
    return most;
  }
  std::vector<std::size_t> const& merges() const { return merges_; } ///< merges_of() all subtrees (network/leaf.hpp)

  GradientBundle const& bundle(std::size_t number) const { return parts_->bundles()[number]; }
  GradientPart part(std::size_t bundle, std::size_t rank) const { return parts_->part(bundle, rank); }
  GradientPart own_part(std::size_t bundle) const { return parts_->part(bundle, rank_); }
  std::size_t max_own_sums() const { ///< the most own sums of a bundle
    std::size_t most = 0;
    for (std::size_t bundle = 0; bundle < num_bundles(); ++bundle) most = std::max(most, own_part(bundle).num_sums());
    return most;
  }

  /// Index, in all sums that a rank receives by messages, of the sums of a subtree for the own part of a bundle:
  /// [bundle][subtree][sum].
  std::size_t place_of(std::size_t bundle, std::size_t subtree) const {
    return places_[bundle] + subtree * own_part(bundle).num_sums();
  }
  std::size_t num_received() const { return places_.back(); } ///< total of the sums for the own parts

private:
  GradientParts const* parts_;
  std::size_t rank_;
  std::vector<std::size_t> cuts_;
  std::vector<std::size_t> first_subtree_; ///< [rank]; then the number of subtrees
  std::vector<std::size_t> merges_;
  std::vector<std::size_t> places_; ///< [bundle]; then the number of sums
};

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

/// The losses of all ranks, whose leaves follow each other in rank order, as if one rank had computed them. `seconds`:
/// set to those of each rank. Collective.
RankLosses gather(RankExchange& exchange, RankLosses const& own, std::vector<double>& seconds);

} // namespace varve
