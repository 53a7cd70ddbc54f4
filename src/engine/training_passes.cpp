#include "engine/training_passes.hpp"

#include "network/leaf.hpp"

#include <algorithm>

namespace varve {
namespace {

/// The subtrees of all passes. Leaves that need several passes are cut at multiples of the largest power of two that
/// fits a pass, so that most passes are one subtree.
std::vector<Subtree> subtrees_of_passes(std::size_t first, std::size_t last, std::size_t num_leaves,
                                        std::size_t leaves_per_pass) {
  if (last - first <= leaves_per_pass) return subtrees_of(first, last, num_leaves);
  std::size_t interval = 1;
  while (2 * interval <= leaves_per_pass) interval *= 2;
  std::vector<Subtree> all;
  for (std::size_t begin = first; begin < last;) {
    std::size_t const end = std::min(last, (begin / interval + 1) * interval);
    auto const some = subtrees_of(begin, end, num_leaves);
    all.insert(all.end(), some.begin(), some.end());
    begin = end;
  }
  return all;
}

} // namespace

std::vector<TrainingPass> passes_of(std::size_t first, std::size_t last, std::size_t num_leaves,
                                    std::size_t leaves_per_pass) {
  auto const subtrees = subtrees_of_passes(first, last, num_leaves, leaves_per_pass);
  auto const merges = merges_of(subtrees, num_leaves);
  std::vector<TrainingPass> passes;
  std::size_t height = 0; // height of the stack
  bool has_merged = true; // true: the next subtree begins a new pass, because sums were merged
  for (std::size_t i = 0; i < subtrees.size(); ++i) {
    auto const& subtree = subtrees[i];
    if (has_merged || passes.back().num_leaves + subtree.count > leaves_per_pass)
      passes.push_back({subtree.first, 0, {}});
    auto& pass = passes.back();
    pass.subtrees.push_back({subtree.first - pass.first_leaf, subtree.count, height, merges[i]});
    pass.num_leaves += subtree.count;
    height += 1 - merges[i];
    has_merged = merges[i] > 0;
  }
  return passes;
}

void RankLosses::add(std::vector<double> const& losses, std::size_t leaf_samples) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (i % leaf_samples == 0) leaves.push_back(0.0);
    leaves.back() += losses[i];
  }
  num_samples += losses.size();
}

LossSum sum_of(RankLosses const& losses) {
  LossSum sum;
  sum.num_samples = losses.num_samples;
  sum.num_right = losses.num_right;
  if (losses.leaves.empty()) return sum;
  sum.loss = leaf_tree(0, losses.leaves.size(), [&](std::size_t leaf) { return losses.leaves[leaf]; });
  return sum;
}

std::vector<RankLosses> gather(RankExchange& exchange, RankLosses const& own) {
  std::vector<double> numbers = {static_cast<double>(own.leaves.size()), static_cast<double>(own.num_samples),
                                 static_cast<double>(own.num_right), own.seconds};
  numbers.insert(numbers.end(), own.leaves.begin(), own.leaves.end());
  auto const all = exchange.gather(numbers);
  std::vector<RankLosses> ranks;
  for (auto number = all.begin(); number != all.end();) {
    auto const num_leaves = static_cast<std::ptrdiff_t>(*number++);
    RankLosses rank;
    rank.num_samples = static_cast<std::size_t>(*number++);
    rank.num_right = static_cast<std::size_t>(*number++);
    rank.seconds = *number++;
    rank.leaves.assign(number, number + num_leaves);
    number += num_leaves;
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

RankLosses joined(std::vector<RankLosses> const& ranks) {
  RankLosses all;
  for (auto const& rank : ranks) {
    all.leaves.insert(all.leaves.end(), rank.leaves.begin(), rank.leaves.end());
    all.num_samples += rank.num_samples;
    all.num_right += rank.num_right;
    all.seconds += rank.seconds;
  }
  return all;
}

} // namespace varve
