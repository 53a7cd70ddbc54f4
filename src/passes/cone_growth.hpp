#pragma once

#include "passes/cone_levels.hpp"

#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// Growth of cones: output by output, each time by the nearest output that fits.
namespace varve {

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

} // namespace varve
