#pragma once

#include "passes/cone_levels.hpp"

#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// How a cone grows: output by output, the next one being the nearest that fits.
namespace varve {

/// The neurons of a cone while it grows, level by level.
class GrowingCone {
public:
  /// No level gets more than `max_width` neurons. The levels must outlive this object.
  GrowingCone(ConeLevels const& levels, std::size_t max_width);

  void clear();

  /// Adds an output and what it depends on; gives the number of new neurons, or nothing, the cone being as before, if
  /// a level would become too wide.
  std::optional<std::size_t> add(NeuronIndex output);

  /// Takes the last output added back.
  void undo();

  std::vector<NeuronIndex> const& members(std::size_t level) const { return members_[level]; }
  /// Those that came with the last output added.
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
  std::vector<std::size_t> sizes_; ///< of the levels before the last output was added
};

/// The outputs not in a cone yet.
class OpenOutputs {
public:
  explicit OpenOutputs(std::size_t count) : is_open_(count, true) {}
  bool is_open(NeuronIndex output) const { return is_open_[output]; }
  void close(NeuronIndex output) { is_open_[output] = false; }
  /// The lowest, or the number of outputs if there is none.
  std::size_t first() {
    while (first_ < is_open_.size() && !is_open_[first_]) ++first_;
    return first_;
  }

private:
  std::vector<bool> is_open_;
  std::size_t first_ = 0;
};

/// Open outputs that depend on something of the cone, the nearest first.
class ConeCandidates {
public:
  /// Both must outlive this object.
  ConeCandidates(ConeLevels const& levels, OpenOutputs const& open);

  void clear();

  /// After the cone has grown: whatever depends on its new neurons.
  void learn(GrowingCone const& cone);

  /// The one that brings the fewest new neurons, as far as the nearest of them tell, the lowest of several; nothing if
  /// none fits.
  std::optional<NeuronIndex> nearest(GrowingCone& cone);

private:
  struct Candidate {
    std::size_t added; ///< new neurons, when it was looked at; now perhaps fewer
    NeuronIndex output;
    auto operator<=>(Candidate const&) const = default;
  };

  void see(std::size_t level, NeuronIndex neuron);

  ConeLevels const& levels_;
  OpenOutputs const& open_;
  std::vector<Candidate> candidates_;
  std::vector<std::vector<bool>> is_seen_; ///< depends on something of the cone
  std::vector<std::vector<NeuronIndex>> seen_;
  std::vector<std::size_t> num_new_;
};

} // namespace varve
