#include "engine/rank_losses.hpp"

#include "network/leaf.hpp"

namespace varve {

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
