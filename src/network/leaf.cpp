#include "network/leaf.hpp"

namespace varve {
namespace {

/// The number of leaves in the first of the two subtrees of a node with `count` leaves (leaf_tree in network/leaf.hpp).
std::size_t first_half(std::size_t count) {
  std::size_t half = 1;
  while (2 * half < count) half *= 2;
  return half;
}

/// Appends the largest subtrees of `node` that lie within [first, last).
void append_subtrees(Subtree const& node, std::size_t first, std::size_t last, std::vector<Subtree>& found) {
  if (node.count == 0 || node.first >= last || node.first + node.count <= first) return;
  if (node.first >= first && node.first + node.count <= last) {
    found.push_back(node);
    return;
  }
  std::size_t const half = first_half(node.count);
  append_subtrees({node.first, half}, first, last, found);
  append_subtrees({node.first + half, node.count - half}, first, last, found);
}

} // namespace

bool is_subtree(Subtree const& part, std::size_t num_leaves) {
  Subtree node{0, num_leaves};
  while (node.count > part.count && node.count > 1) {
    std::size_t const half = first_half(node.count);
    node = part.first < node.first + half ? Subtree{node.first, half} : Subtree{node.first + half, node.count - half};
  }
  return node == part;
}

std::vector<Subtree> subtrees_of(std::size_t first, std::size_t last, std::size_t num_leaves) {
  std::vector<Subtree> found;
  append_subtrees({0, num_leaves}, first, last, found);
  return found;
}

std::vector<std::size_t> merges_of(std::vector<Subtree> const& parts, std::size_t num_leaves) {
  std::vector<std::size_t> merges;
  std::vector<Subtree> stack;
  for (auto const& part : parts) {
    stack.push_back(part);
    merges.push_back(0);
    while (stack.size() > 1) {
      auto const& lower = stack[stack.size() - 2];
      Subtree const together{lower.first, lower.count + stack.back().count};
      if (!is_subtree(together, num_leaves)) break;
      stack.pop_back();
      stack.back() = together;
      ++merges.back();
    }
  }
  return merges;
}

} // namespace varve
