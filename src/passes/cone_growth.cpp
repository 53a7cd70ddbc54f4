#include "passes/cone_growth.hpp"

#include <algorithm>
#include <limits>

namespace varve {
namespace {

constexpr std::size_t looked_at = 24;
constexpr std::size_t does_not_fit = std::numeric_limits<std::size_t>::max();

} // namespace

GrowingCone::GrowingCone(ConeLevels const& levels, std::size_t max_width) : levels_(levels), max_width_(max_width) {
  for (std::size_t level = 0; level < levels.num_levels(); ++level) is_in_.emplace_back(levels.size(level), false);
  members_.resize(levels.num_levels());
  sizes_.resize(levels.num_levels());
}

void GrowingCone::clear() {
  for (std::size_t level = 0; level < members_.size(); ++level) cut(level, 0);
}

std::optional<std::size_t> GrowingCone::add(NeuronIndex output) {
  for (std::size_t level = 0; level < members_.size(); ++level) sizes_[level] = members_[level].size();
  put(members_.size() - 1, output);
  bool fits = true;
  std::size_t added = 0;
  for (std::size_t level = members_.size(); level-- > 0 && fits;) {
    for (std::size_t i = sizes_[level]; level > 0 && i < members_[level].size(); ++i) {
      for (NeuronIndex const input : levels_.inputs(level, members_[level][i])) put(level - 1, input);
    }
    added += members_[level].size() - sizes_[level];
    fits = members_[level].size() <= max_width_;
  }
  if (fits) return added;
  undo();
  return std::nullopt;
}

void GrowingCone::undo() {
  for (std::size_t level = 0; level < members_.size(); ++level) cut(level, sizes_[level]);
}

void GrowingCone::put(std::size_t level, NeuronIndex neuron) {
  if (is_in_[level][neuron]) return;
  is_in_[level][neuron] = true;
  members_[level].push_back(neuron);
}

void GrowingCone::cut(std::size_t level, std::size_t size) {
  for (std::size_t i = size; i < members_[level].size(); ++i) is_in_[level][members_[level][i]] = false;
  members_[level].resize(size);
}

ConeCandidates::ConeCandidates(ConeLevels const& levels, OpenOutputs const& open) : levels_(levels), open_(open) {
  for (std::size_t level = 0; level < levels.num_levels(); ++level) is_seen_.emplace_back(levels.size(level), false);
  seen_.resize(levels.num_levels());
  num_new_.resize(levels.num_levels());
}

void ConeCandidates::clear() {
  for (std::size_t level = 0; level < seen_.size(); ++level) {
    for (NeuronIndex const neuron : seen_[level]) is_seen_[level][neuron] = false;
    seen_[level].clear();
  }
  candidates_.clear();
}

void ConeCandidates::learn(GrowingCone const& cone) {
  for (std::size_t level = 0; level < seen_.size(); ++level) {
    std::size_t const before = seen_[level].size();
    for (NeuronIndex const neuron : cone.added(level)) see(level, neuron);
    num_new_[level] = before;
  }
  for (std::size_t level = 0; level + 1 < seen_.size(); ++level) {
    for (std::size_t i = num_new_[level]; i < seen_[level].size(); ++i) {
      for (NeuronIndex const reader : levels_.readers(level, seen_[level][i])) see(level + 1, reader);
    }
  }
  for (std::size_t i = num_new_.back(); i < seen_.back().size(); ++i)
    candidates_.push_back({0, seen_.back()[i]}); // 0, so that nearest() examines it first
}

std::optional<NeuronIndex> ConeCandidates::nearest(GrowingCone& cone) {
  std::erase_if(candidates_, [&](Candidate const& candidate) { return !open_.is_open(candidate.output); });
  std::ranges::sort(candidates_);
  for (std::size_t i = 0; i < std::min(looked_at, candidates_.size()); ++i) {
    auto const added = cone.add(candidates_[i].output);
    if (added) cone.undo();
    candidates_[i].added = added.value_or(does_not_fit); // cones only grow, so it will not fit later, either
  }
  std::erase_if(candidates_, [](Candidate const& candidate) { return candidate.added == does_not_fit; });
  if (candidates_.empty()) return std::nullopt;
  return std::ranges::min(candidates_).output;
}

void ConeCandidates::see(std::size_t level, NeuronIndex neuron) {
  if (is_seen_[level][neuron]) return;
  is_seen_[level][neuron] = true;
  seen_[level].push_back(neuron);
}

} // namespace varve
