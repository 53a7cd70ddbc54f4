#pragma once

#include "network/network.hpp"
#include "passes/cones.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varve {

/// The neurons of a run of layers by level: level 0 are the inputs of the run, level k + 1 the outputs of its layer k.
class ConeLevels {
public:
  /// The layers must outlive this object.
  explicit ConeLevels(std::span<Layer const> layers);

  std::size_t num_levels() const { return layers_.size() + 1; }
  std::size_t size(std::size_t level) const {
    return level == 0 ? layers_.front().num_inputs() : layers_[level - 1].num_outputs();
  }

  /// The neurons of the level below that one of this level (1 or more) reads.
  std::span<NeuronIndex const> inputs(std::size_t level, std::size_t neuron) const {
    return layers_[level - 1].weights.row_columns(neuron);
  }

  /// The neurons of the level above that read one of this level.
  std::span<NeuronIndex const> readers(std::size_t level, std::size_t neuron) const {
    auto const& pointers = reader_pointers_[level];
    return {readers_[level].data() + pointers[neuron],
            static_cast<std::size_t>(pointers[neuron + 1] - pointers[neuron])};
  }

private:
  std::span<Layer const> layers_;
  std::vector<std::vector<EdgeOffset>> reader_pointers_; ///< [level][neuron]: first of its readers in readers_[level]
  std::vector<std::vector<NeuronIndex>> readers_;
};

// Growth of cones: output by output, each time by the nearest output that fits.

/// The neurons of a cone while it grows, level by level.
class GrowingCone {
public:
  /// max_width: limit of the neurons of a level. The levels must outlive this object.
  GrowingCone(ConeLevels const& levels, std::size_t max_width);

  void clear();

  /// Adds an output and all that it depends on; returns the number of new neurons. If a level would become too wide,
  /// leaves the cone unchanged and returns nullopt.
  std::optional<std::size_t> add(NeuronIndex output);

  /// Undoes the last add().
  void undo();

  std::vector<NeuronIndex> const& members(std::size_t level) const { return members_[level]; }
  /// The neurons of a level that the last add() brought.
  std::span<NeuronIndex const> added(std::size_t level) const {
    return std::span<NeuronIndex const>(members_[level]).subspan(sizes_[level]);
  }
  std::vector<NeuronIndex> const& outputs() const { return members_.back(); }

private:
  void put(std::size_t level, NeuronIndex neuron);
  void cut(std::size_t level, std::size_t size);

  ConeLevels const& levels_;
  std::size_t max_width_;
  std::vector<std::vector<bool>> is_in_;
  std::vector<std::vector<NeuronIndex>> members_;
  std::vector<std::size_t> sizes_; ///< sizes of the levels before the last add()
};

/// The outputs that are not in a cone yet.
class OpenOutputs {
public:
  explicit OpenOutputs(std::size_t count) : is_open_(count, true) {}
  bool is_open(NeuronIndex output) const { return is_open_[output]; }
  void close(NeuronIndex output) { is_open_[output] = false; }
  /// The lowest open output, or the number of outputs if none is open.
  std::size_t first() {
    while (first_ < is_open_.size() && !is_open_[first_]) ++first_;
    return first_;
  }

private:
  std::vector<bool> is_open_;
  std::size_t first_ = 0;
};

/// Open outputs that depend on a neuron of the cone. The nearest brings the fewest new neurons.
class ConeCandidates {
public:
  /// Both must outlive this object.
  ConeCandidates(ConeLevels const& levels, OpenOutputs const& open);

  void clear();

  /// To be called after each add() to the cone: adds the outputs that depend on its new neurons.
  void learn(GrowingCone const& cone);

  /// The candidate that brings the fewest new neurons, the lowest of equal ones; nullopt if none fits. Examines only
  /// the candidates that looked nearest before, so it may miss a nearer one.
  std::optional<NeuronIndex> nearest(GrowingCone& cone);

private:
  struct Candidate {
    std::size_t added; ///< new neurons when it was examined last; may be fewer now
    NeuronIndex output;
    auto operator<=>(Candidate const&) const = default;
  };

  void see(std::size_t level, NeuronIndex neuron);

  ConeLevels const& levels_;
  OpenOutputs const& open_;
  std::vector<Candidate> candidates_;
  std::vector<std::vector<bool>> is_seen_; ///< [level][neuron]: depends on a neuron of the cone
  std::vector<std::vector<NeuronIndex>> seen_;
  std::vector<std::size_t> num_new_;
};

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
