#pragma once

#include "engine/gradient_parts.hpp"
#include "network/leaf.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace varve {

/// Who computes what in a step that ranks share: the subtrees of leaves of each rank, numbered in the order of their
/// leaves, and the part of each bundle that a rank owns (engine/gradient_parts.hpp).
class StepShares {
public:
  StepShares(GradientParts const& parts, std::size_t rank) : parts_(&parts), rank_(rank) {}

  /// Takes the leaves [cuts[r], cuts[r + 1]) for rank r.
  void take(std::vector<std::size_t> const& cuts) {
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

  std::vector<std::size_t> const& cuts() const { return cuts_; } ///< empty before take()
  std::size_t rank() const { return rank_; }
  std::size_t num_ranks() const { return first_subtree_.size() - 1; }
  std::size_t num_bundles() const { return parts_->bundles().size(); }

  std::size_t first_subtree(std::size_t rank) const { return first_subtree_[rank]; }
  std::size_t num_subtrees(std::size_t rank) const { return first_subtree_[rank + 1] - first_subtree_[rank]; }
  std::size_t num_subtrees() const { return first_subtree_.back(); }
  std::size_t most_subtrees() const { ///< of any rank, and at least one
    std::size_t most = 1;
    for (std::size_t rank = 0; rank < num_ranks(); ++rank) most = std::max(most, num_subtrees(rank));
    return most;
  }
  std::vector<std::size_t> const& merges() const { return merges_; } ///< network/subtrees.hpp, of all subtrees

  GradientBundle const& bundle(std::size_t number) const { return parts_->bundles()[number]; }
  GradientPart part(std::size_t bundle, std::size_t rank) const { return parts_->part(bundle, rank); }
  GradientPart own_part(std::size_t bundle) const { return parts_->part(bundle, rank_); }
  std::size_t most_own_sums() const { ///< of any bundle
    std::size_t most = 0;
    for (std::size_t bundle = 0; bundle < num_bundles(); ++bundle) most = std::max(most, own_part(bundle).num_sums());
    return most;
  }

  /// Where the sums of a subtree for the own part of a bundle are among all that a rank receives by messages:
  /// [bundle][subtree][sum].
  std::size_t place_of(std::size_t bundle, std::size_t subtree) const {
    return places_[bundle] + subtree * own_part(bundle).num_sums();
  }
  std::size_t num_received() const { return places_.back(); } ///< sums for the own parts

private:
  GradientParts const* parts_;
  std::size_t rank_;
  std::vector<std::size_t> cuts_;
  std::vector<std::size_t> first_subtree_; ///< of each rank; then the number of subtrees
  std::vector<std::size_t> merges_;
  std::vector<std::size_t> places_; ///< by bundle; then the number of sums
};

} // namespace varve
