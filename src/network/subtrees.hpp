#pragma once

#include <cstddef>
#include <vector>

namespace varve {

/// A complete subtree of the binary tree over the leaves of a mini-batch (network/leaf.hpp): leaves
/// [first, first + count).
struct Subtree {
  std::size_t first = 0;
  std::size_t count = 0;

  bool operator==(Subtree const&) const = default;
};

/// True if the tree over num_leaves leaves has a node that covers exactly the leaves of `part`.
bool is_subtree(Subtree const& part, std::size_t num_leaves);

/// The fewest subtrees of the tree over num_leaves leaves that together cover the leaves [first, last), in ascending
/// order.
std::vector<Subtree> subtrees_of(std::size_t first, std::size_t last, std::size_t num_leaves);

/// How the sums of neighbouring subtrees become sums of larger ones: the sums of `parts` are put on a stack in
/// ascending order, and after the i-th one, the two topmost sums are replaced by their sum merges[i] times. What
/// remains on the stack are the fewest subtrees that cover the same leaves. `parts` must be ascending subtrees without
/// gaps.
std::vector<std::size_t> merges_of(std::vector<Subtree> const& parts, std::size_t num_leaves);

} // namespace varve
