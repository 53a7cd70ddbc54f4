#include "engine/step_shares.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace varve {
namespace {

/// The bundles of a layer, each with at most max_edges edges, the last one first.
std::vector<GradientBundle> bundles_of_large(Layer const& layer, std::size_t number, std::size_t max_edges) {
  std::size_t const count = (layer.num_edges() + max_edges - 1) / max_edges;
  std::vector<GradientBundle> bundles;
  for (std::size_t left = layer.num_edges(), part = count; part > 0; left -= bundles.back().num_edges, --part)
    bundles.push_back({number, 1, 0, left / part, 0, part == count ? layer.num_outputs() : 0});
  return bundles;
}

} // namespace

std::size_t GradientParts::min_sums_of(Network const& network) {
  std::size_t sums = 0;
  for (auto const& layer : network.layers()) sums += layer.num_edges() + layer.num_outputs();
  return std::clamp(sums / 4, min_sums, 16 * min_sums);
}

GradientParts::GradientParts(Network const& network, std::size_t num_ranks, std::size_t min_size, std::size_t max_edges)
    : num_ranks_(num_ranks) {
  auto const& layers = network.layers();
  std::vector<GradientBundle> from_last; // the backward pass completes layers from the last to the first
  bool is_open = false;                  // the last bundle has room for another layer
  for (std::size_t number = layers.size(); number-- > 0;) {
    auto const& layer = layers[number];
    if (layer.num_edges() > max_edges) {
      auto const parts = bundles_of_large(layer, number, max_edges);
      from_last.insert(from_last.end(), parts.begin(), parts.end());
      is_open = false;
      continue;
    }
    if (!is_open) from_last.emplace_back();
    auto& bundle = from_last.back();
    bundle.first_layer = number;
    ++bundle.num_layers;
    bundle.num_edges += layer.num_edges();
    bundle.num_outputs += layer.num_outputs();
    is_open = bundle.num_sums() < min_size;
  }
  bundles_.assign(from_last.rbegin(), from_last.rend());
  std::size_t first_edge = 0;
  std::size_t first_output = 0;
  for (std::size_t number = 0; number < bundles_.size(); ++number) {
    auto& bundle = bundles_[number];
    bundle.first_edge = first_edge;
    bundle.first_output = first_output;
    first_edge += bundle.num_edges;
    first_output += bundle.num_outputs;
    bundle_of_layer_.resize(bundle.first_layer, number);
    bundle_of_layer_.insert(bundle_of_layer_.end(), bundle.num_layers, number);
  }
}

GradientPart GradientParts::part(std::size_t bundle, std::size_t rank) const {
  auto const& whole = bundles_[bundle];
  auto const cut = [&](std::size_t number) { // at a multiple of 16 numbers, a vector or a cache line
    return number == num_ranks_ ? whole.num_sums() : whole.num_sums() / num_ranks_ * number / 16 * 16;
  };
  std::size_t const first = cut(rank);
  std::size_t const last = cut(rank + 1);
  auto const edge = [&](std::size_t place) { return whole.first_edge + std::min(place, whole.num_edges); };
  auto const output = [&](std::size_t place) {
    return whole.first_output + (std::max(place, whole.num_edges) - whole.num_edges);
  };
  return {whole.first_sum() + first, edge(first), edge(last), output(first), output(last)};
}

namespace {

/// Cuts at multiples of `granule` that give each rank leaves in proportion to its speed, and at least one granule.
std::vector<std::size_t> cuts_at(std::size_t granule, std::size_t num_leaves,
                                 std::vector<double> const& seconds_per_leaf) {
  std::size_t const num_ranks = seconds_per_leaf.size();
  std::size_t const num_granules = (num_leaves + granule - 1) / granule;
  double all = 0.0;
  for (double const seconds : seconds_per_leaf) all += 1.0 / seconds;
  std::vector<std::size_t> cuts(num_ranks + 1, 0);
  double speed = 0.0;
  for (std::size_t rank = 1; rank <= num_ranks; ++rank) {
    speed += 1.0 / seconds_per_leaf[rank - 1];
    auto const cut = static_cast<std::size_t>(std::lround(speed / all * static_cast<double>(num_granules)));
    cuts[rank] = rank == num_ranks ? num_granules : std::clamp(cut, cuts[rank - 1], num_granules);
  }
  if (num_granules >= num_ranks) { // every rank gets leaves
    for (std::size_t rank = 1; rank < num_ranks; ++rank) cuts[rank] = std::max(cuts[rank], cuts[rank - 1] + 1);
    for (std::size_t rank = num_ranks; rank-- > 1;) cuts[rank] = std::min(cuts[rank], cuts[rank + 1] - 1);
  }
  for (auto& cut : cuts) cut = std::min(cut * granule, num_leaves);
  return cuts;
}

double longest(std::vector<std::size_t> const& cuts, std::vector<double> const& seconds_per_leaf) {
  double seconds = 0.0;
  for (std::size_t rank = 0; rank < seconds_per_leaf.size(); ++rank)
    seconds = std::max(seconds, static_cast<double>(cuts[rank + 1] - cuts[rank]) * seconds_per_leaf[rank]);
  return seconds;
}

} // namespace

LeafShares::LeafShares(std::size_t num_ranks, std::vector<double> const& speeds)
    : is_fixed_(!speeds.empty()), seconds_(num_ranks) {
  if (!is_fixed_) return;
  if (speeds.size() != num_ranks) fail<UsageError>("{} speeds are given for {} ranks", speeds.size(), num_ranks);
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    if (!(speeds[rank] > 0.0 && std::isfinite(speeds[rank])))
      fail<UsageError>("the speed of rank {} is {}, expected a positive number", rank, speeds[rank]);
    seconds_[rank] = 1.0 / speeds[rank];
  }
}

std::vector<double> LeafShares::seconds_per_leaf() const {
  double sum = 0.0;
  double num_known = 0.0;
  for (auto const& seconds : seconds_) {
    sum += seconds.value_or(0.0);
    num_known += seconds ? 1.0 : 0.0;
  }
  double const mean = num_known > 0.0 ? sum / num_known : 1.0; // for ranks without a measurement
  std::vector<double> all;
  for (auto const& seconds : seconds_) all.push_back(seconds.value_or(mean));
  return all;
}

std::vector<std::size_t> LeafShares::cuts(std::size_t num_leaves) const {
  constexpr double tolerance = 1.05;
  auto const seconds = seconds_per_leaf();
  auto best = cuts_at(1, num_leaves, seconds);
  double shortest = longest(best, seconds);
  for (std::size_t granule = 2; granule * seconds_.size() <= num_leaves; granule *= 2)
    shortest = std::min(shortest, longest(cuts_at(granule, num_leaves, seconds), seconds));
  for (std::size_t granule = 2; granule * seconds_.size() <= num_leaves; granule *= 2) {
    auto coarser = cuts_at(granule, num_leaves, seconds);
    if (longest(coarser, seconds) <= tolerance * shortest) best = std::move(coarser);
  }
  return best;
}

void LeafShares::measure(std::vector<double> const& seconds, std::vector<std::size_t> const& cuts) {
  constexpr double part_of_new = 0.2;
  if (is_fixed_) return;
  for (std::size_t rank = 0; rank < seconds_.size(); ++rank) {
    auto const num_leaves = static_cast<double>(cuts[rank + 1] - cuts[rank]);
    if (num_leaves == 0.0 || !(seconds[rank] > 0.0)) continue;
    double const now = seconds[rank] / num_leaves;
    seconds_[rank] = seconds_[rank] ? (1.0 - part_of_new) * *seconds_[rank] + part_of_new * now : now;
  }
}

namespace {

/// The subtrees of all passes. Leaves that need several passes are cut at multiples of the largest power of two that
/// fits a pass, so that most passes are one subtree.
std::vector<Subtree> subtrees_of_passes(std::size_t first, std::size_t last, std::size_t num_leaves,
                                        std::size_t leaves_per_pass) {
  if (last - first <= leaves_per_pass) return subtrees_of(first, last, num_leaves);
  std::size_t const interval = std::bit_floor(leaves_per_pass);
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

RankLosses gather(RankExchange& exchange, RankLosses const& own, std::vector<double>& seconds) {
  std::vector<double> numbers = {static_cast<double>(own.leaves.size()), static_cast<double>(own.num_samples),
                                 static_cast<double>(own.num_right), own.seconds};
  numbers.insert(numbers.end(), own.leaves.begin(), own.leaves.end());
  auto const gathered = exchange.gather(numbers);
  RankLosses all;
  seconds.clear();
  for (auto number = gathered.begin(); number != gathered.end();) {
    auto const num_leaves = static_cast<std::ptrdiff_t>(*number++);
    all.num_samples += static_cast<std::size_t>(*number++);
    all.num_right += static_cast<std::size_t>(*number++);
    seconds.push_back(*number++);
    all.leaves.insert(all.leaves.end(), number, number + num_leaves);
    number += num_leaves;
  }
  return all;
}

} // namespace varve
