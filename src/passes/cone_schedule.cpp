#include "passes/cone_schedule.hpp"

#include <algorithm>

namespace varve {

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
