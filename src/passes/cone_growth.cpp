#include "passes/cone_growth.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace varve {

ConeLevels::ConeLevels(std::span<Layer const> layers) : layers_(layers) {
  for (Layer const& layer : layers) {
    SparseMatrix const& matrix = layer.weights;
    std::vector<EdgeOffset> pointers(matrix.num_columns + 1, 0);
    for (NeuronIndex const input : matrix.column_indices) ++pointers[input + 1];
    std::partial_sum(pointers.begin(), pointers.end(), pointers.begin());
    std::vector<NeuronIndex> readers(matrix.num_entries());
    auto next = pointers;
    for (std::size_t output = 0; output < matrix.num_rows; ++output) {
      for (NeuronIndex const input : matrix.row_columns(output))
        readers[next[input]++] = static_cast<NeuronIndex>(output);
    }
    reader_pointers_.push_back(std::move(pointers));
    readers_.push_back(std::move(readers));
  }
}

namespace {

constexpr std::size_t looked_at = 24;
constexpr std::size_t most_candidates = 1024; ///< many times what a cone has room for: a neuron may have more readers
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
  for (std::size_t i = num_new_.back(); i < seen_.back().size() && candidates_.size() < most_candidates; ++i)
    if (open_.is_open(seen_.back()[i])) candidates_.push_back({0, seen_.back()[i]}); // 0: nearest() examines it first
}

std::optional<NeuronIndex> ConeCandidates::nearest(GrowingCone& cone) {
  std::erase_if(candidates_, [&](Candidate const& candidate) { return !open_.is_open(candidate.output); });
  auto const count = std::min(looked_at, candidates_.size());
  std::ranges::nth_element(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
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

/// The free slots.
class ConeSlots {
public:
  explicit ConeSlots(std::size_t count) : num_slots_(count) {}
  std::uint16_t take() {
    if (free_.empty()) return static_cast<std::uint16_t>(num_slots_++);
    std::uint16_t const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(std::uint16_t slot) { free_.push_back(slot); }
  std::size_t num_slots() const { return num_slots_; }

private:
  std::size_t num_slots_;
  std::vector<std::uint16_t> free_;
};

ConeScheduler::ConeScheduler(ConeLevels const& levels, ConeLimits limits) : levels_(levels), limits_(limits) {
  for (std::size_t level = 0; level < levels.num_levels(); ++level) {
    slot_of_.emplace_back(levels.size(level), std::uint16_t(0));
    num_readers_.emplace_back(levels.size(level), 0);
  }
}

std::optional<Cone> ConeScheduler::schedule(GrowingCone const& members) {
  Cone cone;
  cone.inputs = members.members(0);
  std::ranges::sort(cone.inputs);
  ConeSlots slots(cone.inputs.size());
  for (std::size_t i = 0; i < cone.inputs.size(); ++i) slot_of_[0][cone.inputs[i]] = static_cast<std::uint16_t>(i);
  for (std::size_t level = 1; level < levels_.num_levels(); ++level) {
    schedule_level(level, members.members(level), slots, cone);
    if (slots.num_slots() > limits_.max_slots || cone.num_rounds > limits_.max_rounds) return std::nullopt;
  }
  cone.outputs = members.outputs();
  std::ranges::sort(cone.outputs);
  for (NeuronIndex const output : cone.outputs) cone.output_slots.push_back(slot_of_.back()[output]);
  return cone;
}

void ConeScheduler::schedule_level(std::size_t level, std::vector<NeuronIndex> left, ConeSlots& slots, Cone& cone) {
  std::ranges::sort(left);
  auto& readers = num_readers_[level - 1];
  for (NeuronIndex const neuron : left) {
    for (NeuronIndex const input : levels_.inputs(level, neuron)) ++readers[input];
  }
  std::vector<std::uint16_t> freed;
  while (!left.empty()) {
    std::size_t const first = cone.steps.size();
    freed.clear();
    while (!left.empty() && cone.steps.size() < first + limits_.group_size)
      read_inputs(level, take_best(level, left), freed, cone);
    std::size_t longest = 1;
    for (std::size_t step = first; step < cone.steps.size(); ++step)
      longest = std::max(longest, levels_.inputs(level, cone.steps[step].neuron).size());
    cone.num_rounds += (longest + 1) / 2;
    for (std::uint16_t const slot : freed) slots.give_back(slot);
    for (std::size_t step = first; step < cone.steps.size(); ++step) {
      cone.steps[step].target = slots.take();
      slot_of_[level][cone.steps[step].neuron] = cone.steps[step].target;
    }
  }
}

/// Removes and returns the neuron that reads the most values for the last time, the first of equal ones.
NeuronIndex ConeScheduler::take_best(std::size_t level, std::vector<NeuronIndex>& left) const {
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t frees = 0;
    for (NeuronIndex const input : levels_.inputs(level, left[i])) frees += num_readers_[level - 1][input] == 1 ? 1 : 0;
    if (frees <= most) continue;
    most = frees;
    best = i;
  }
  NeuronIndex const neuron = left[best];
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
  return neuron;
}

void ConeScheduler::read_inputs(std::size_t level, NeuronIndex neuron, std::vector<std::uint16_t>& freed, Cone& cone) {
  for (NeuronIndex const input : levels_.inputs(level, neuron)) {
    cone.edge_slots.push_back(slot_of_[level - 1][input]);
    if (--num_readers_[level - 1][input] == 0) freed.push_back(slot_of_[level - 1][input]);
  }
  cone.steps.push_back({static_cast<std::uint16_t>(level - 1), 0, neuron});
}

} // namespace varve
