#pragma once

#include "passes/cone_growth.hpp"
#include "passes/cone_levels.hpp"
#include "passes/cones.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace varve {

class ConeSlots;

/// Turns the neurons of a cone into steps. In each layer, neurons that free the most slots come first.
class ConeScheduler {
public:
  /// The levels must outlive this object.
  ConeScheduler(ConeLevels const& levels, ConeLimits limits);

  /// The cone with its steps; nullopt if they need more slots or rounds than the limits allow.
  std::optional<Cone> schedule(GrowingCone const& members);

private:
  void schedule_level(std::size_t level, std::vector<NeuronIndex> left, ConeSlots& slots, Cone& cone);
  NeuronIndex take_best(std::size_t level, std::vector<NeuronIndex>& left) const;
  void read_inputs(std::size_t level, NeuronIndex neuron, std::vector<std::uint16_t>& freed, Cone& cone);

  ConeLevels const& levels_;
  ConeLimits limits_;
  std::vector<std::vector<std::uint16_t>> slot_of_; ///< [level][neuron]: slot in the present cone
  std::vector<std::vector<int>> num_readers_;       ///< [level][neuron]: readers not scheduled yet; 0 between cones
};

} // namespace varve
