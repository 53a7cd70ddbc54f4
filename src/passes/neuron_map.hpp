#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <limits>
#include <vector>

namespace varve {

/// Maps the neurons of one layer of a source to those of the rewritten layer. Merged neurons share a number; numbers
/// ascend with the first neuron of each.
struct NeuronMap {
  /// Removed: the neuron always equals `constants[i]`.
  static constexpr NeuronIndex kConstant = std::numeric_limits<NeuronIndex>::max();
  static constexpr NeuronIndex kUnread = kConstant - 1; ///< removed: nothing reads the neuron

  std::size_t num_before = 0;   ///< neurons of the source's layer
  std::size_t num_numbered = 0; ///< neurons that remain
  /// One per source neuron: its new number, kConstant or kUnread; empty if all keep their numbers.
  std::vector<NeuronIndex> numbers;
  std::vector<double> constants; ///< one per source neuron, valid for kConstant; empty if there is no constant

  static NeuronMap identity(std::size_t neurons) { return {neurons, neurons, {}, {}}; }

  bool is_identity() const { return numbers.empty() && num_before == num_numbered; }
  NeuronIndex number(std::size_t neuron) const {
    return numbers.empty() ? static_cast<NeuronIndex>(neuron) : numbers[neuron];
  }
  /// True if all neurons are gone. One neuron that reads nothing and that nothing reads then stands in for them, so
  /// that no layer becomes empty.
  bool is_stand_in() const { return num_before > 0 && num_numbered == 0; }
  std::size_t width() const { return is_stand_in() ? 1 : num_numbered; } ///< number of outputs of the rewritten layer
};

/// The numbers 0 to count - 1.
std::vector<NeuronIndex> ascending(std::size_t count);

/// The source neurons that remain, ascending: the first of each set of merged neurons.
std::vector<NeuronIndex> kept_neurons(NeuronMap const& map);

} // namespace varve
