#pragma once

#include <cstddef>
#include <vector>

namespace varve {

/// The order in which sums over the samples of a mini-batch are added, the same on every backend (docs/numerics.md).
/// A *leaf* is as many neighbouring positions of the mini-batch as fit four vector registers of 64 bytes. Its sum
/// consists of kLeafChains chains; chain c adds the positions c, c + kLeafChains, c + 2 kLeafChains, ... of the leaf.
/// The sums of chains are added by a tree: chain c and chain c + d for d = kLeafChains / 2, ..., 2, 1.
template <class Scalar>
inline constexpr int kLeafChains = 64 / static_cast<int>(sizeof(Scalar));
inline constexpr int kChainLength = 4;
template <class Scalar>
inline constexpr int kLeafSamples = kLeafChains<Scalar>* kChainLength;

/// The number of leaves that hold num_positions positions.
template <class Scalar>
constexpr std::size_t num_leaves(std::size_t num_positions) {
  return (num_positions + kLeafSamples<Scalar> - 1) / kLeafSamples<Scalar>;
}

/// The number of elements of the partial sums of a tree over leaves of which a run of leaves_per_run, a power of two,
/// is added up at a time: [run of leaves][level][sum].
inline std::size_t size_of_levels(std::size_t num_sums, int num_leaves, int leaves_per_run) {
  std::size_t levels = 1;
  while (1 << (levels - 1) < leaves_per_run) ++levels;
  auto const runs = static_cast<std::size_t>((num_leaves + leaves_per_run - 1) / leaves_per_run);
  return runs * levels * num_sums;
}

/// Adds the sums of leaves [first, first + count) by a binary tree: of n leaves, the first 2^k, where 2^k is the
/// largest power of two below n, form one subtree, the rest the other. Aligned runs of 2^k leaves are therefore always
/// subtrees. `value_of(leaf)` is a leaf's sum.
template <class ValueOf>
auto leaf_tree(std::size_t first, std::size_t count, ValueOf const& value_of) -> decltype(value_of(first)) {
  if (count == 1) return value_of(first);
  std::size_t half = 1;
  while (2 * half < count) half *= 2;
  return leaf_tree(first, half, value_of) + leaf_tree(first + half, count - half, value_of);
}

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
