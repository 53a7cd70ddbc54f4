#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varve {

/// A cone: some outputs of a run of layers with all neurons that they depend on, down to the inputs of the run. Cones
/// are computed independently, so many layers of narrow cones take one pass over the activations. Values live in
/// numbered slots; a slot is used again as soon as its value has been read for the last time.
struct Cone {
  /// Computes one neuron from values of the layer before.
  struct Step {
    std::uint16_t layer;  ///< layer of the run, from 0
    std::uint16_t target; ///< slot of the result
    NeuronIndex neuron;   ///< output of that layer
  };

  std::vector<NeuronIndex> inputs;         ///< inputs of the run; slot i holds inputs[i] at the start
  std::vector<Step> steps;                 ///< layer by layer, in groups whose steps all read before any of them writes
  std::vector<std::uint16_t> edge_slots;   ///< slots of the inputs of each step, in the order of its edges
  std::vector<NeuronIndex> outputs;        ///< outputs of the run
  std::vector<std::uint16_t> output_slots; ///< slot of each output at the end
  std::size_t num_rounds = 0;              ///< rounds of all groups; a round adds two edges of each step of a group
};

/// The resources that a cone may use.
struct ConeLimits {
  std::size_t max_slots;  ///< values that are needed at the same time
  std::size_t group_size; ///< steps of a group, which read before any of them writes
  std::size_t max_rounds; ///< see Cone::num_rounds
};

/// The cones of a run of layers. Each output of the last layer is in exactly one cone; other neurons may be in several,
/// once in each. If the layers consist of small components, a cone is one component or several.
struct ConeRun {
  std::size_t num_layers = 0;
  std::vector<Cone> cones;
  std::size_t first_layer = 0; ///< of those among which the run was chosen

  /// Time by a simple model, in units of moving one activation of the run's inputs or outputs through memory.
  double cost() const;
};

/// True if the layer may be part of a run: every output has an edge, and few outputs have more than two.
bool suits_cones(Layer const& layer);

/// Finds cones by greedy growth: the next output of a cone is the one that brings the fewest new neurons. Returns
/// nullopt if the cone of a single output exceeds the limits, or if most neurons would be computed more than twice.
std::optional<ConeRun> find_cones(std::span<Layer const> layers, ConeLimits limits);

/// Chooses runs of cones among consecutive layers so that the total cost is least, and returns them in order. Layers in
/// no run are left to other kernels, whose cost is modelled as `other_cost` per output, in units of ConeRun::cost().
std::vector<ConeRun> place_cone_runs(std::span<Layer const> layers, ConeLimits limits, double other_cost);

} // namespace varve
