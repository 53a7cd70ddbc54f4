#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varve {

/// Some outputs of a run of layers together with all that they depend on, down to the inputs of the run: their cone.
/// Computing it needs nothing of the other outputs, so many layers of narrow cones take one pass over the activations.
/// Values live in numbered slots; a slot is taken again as soon as its value has been read for the last time.
struct Cone {
  /// One neuron, from values of the layer before.
  struct Step {
    std::uint16_t layer;  ///< of the run, from 0
    std::uint16_t target; ///< slot
    NeuronIndex neuron;   ///< output of that layer
  };

  std::vector<NeuronIndex> inputs;         ///< of the run: slot i holds inputs[i] at the start
  std::vector<Step> steps;                 ///< layer by layer, each in groups whose steps all read before any writes
  std::vector<std::uint16_t> edge_slots;   ///< where the inputs of each step are, in the order of its edges
  std::vector<NeuronIndex> outputs;        ///< of the run
  std::vector<std::uint16_t> output_slots; ///< slot of each
  std::size_t num_rounds = 0;              ///< of two edges each, all groups together
};

/// What a cone may take.
struct ConeLimits {
  std::size_t max_slots;  ///< values at a time
  std::size_t group_size; ///< steps that read before any of them writes
  std::size_t max_rounds; ///< two edges for each step of a group
};

/// Cones of a run of layers: each output of the last layer is in exactly one. Neurons below may be in several, once in
/// each. Where layers fall apart into small components, these are the cones (several small ones make one).
struct ConeRun {
  std::size_t num_layers = 0;
  std::vector<Cone> cones;

  std::size_t num_steps() const;
  std::size_t num_inputs() const; ///< of all cones together

  /// Time by a simple model, in units of moving one activation of the run's inputs or outputs through memory.
  double cost() const;
};

/// True if such a layer may be part of a run: every output has an edge, and few have more than two.
bool suits_cones(Layer const& layer);

/// Finds cones by greedy growth: the next output is the one that brings the fewest new neurons. Nothing if a cone of a
/// single output exceeds the limits, or if most neurons would be computed more than twice.
std::optional<ConeRun> find_cones(std::span<Layer const> layers, ConeLimits limits);

/// Splits consecutive layers into runs of cones, so that the model's cost is least: the runs in order with the number
/// of their first layer; layers in none are left to other kernels, which are taken to cost `other_cost` per output.
struct PlacedConeRun {
  std::size_t first_layer;
  ConeRun run;
};
std::vector<PlacedConeRun> place_cone_runs(std::span<Layer const> layers, ConeLimits limits, double other_cost);

} // namespace varve
