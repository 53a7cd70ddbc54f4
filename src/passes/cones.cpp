#include "passes/cones.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <compare>
#include <limits>
#include <utility>

namespace varve {
namespace {

constexpr std::size_t max_edges_per_output = 8;
constexpr double max_mean_edges = 3.0;
constexpr std::size_t max_layers_per_run = 12;

/// Cost of a step and of an edge, in units of moving an activation through memory; measured on an H200.
constexpr double cost_of_step = 0.25;
constexpr double cost_of_edge = 0.25;

/// The neurons of a run of layers by level: level 0 are the inputs of the run, level k + 1 the outputs of its layer k.
class ConeLevels {
public:
  /// The layers must outlive this object.
  explicit ConeLevels(std::span<Layer const> layers) : layers_(layers) {
    for (Layer const& layer : layers) edges_.push_back(transposed(layer.weights));
  }

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
    auto const& [pointers, readers, unused] = edges_[level];
    return std::span(readers).subspan(pointers[neuron], pointers[neuron + 1] - pointers[neuron]);
  }

private:
  std::span<Layer const> layers_;
  std::vector<TransposedEdges> edges_;
};

/// A set of neurons of each level, in the order in which they came.
class NeuronSets {
public:
  explicit NeuronSets(ConeLevels const& levels) : members_(levels.num_levels()) {
    for (std::size_t level = 0; level < levels.num_levels(); ++level) is_in_.emplace_back(levels.size(level), false);
  }

  std::vector<NeuronIndex> const& operator[](std::size_t level) const { return members_[level]; }

  void add(std::size_t level, NeuronIndex neuron) {
    if (is_in_[level][neuron]) return;
    is_in_[level][neuron] = true;
    members_[level].push_back(neuron);
  }

  /// Removes all but the first `size` neurons of a level.
  void cut(std::size_t level, std::size_t size) {
    for (std::size_t i = size; i < members_[level].size(); ++i) is_in_[level][members_[level][i]] = false;
    members_[level].resize(size);
  }

  void clear() {
    for (std::size_t level = 0; level < members_.size(); ++level) cut(level, 0);
  }

private:
  std::vector<std::vector<bool>> is_in_;
  std::vector<std::vector<NeuronIndex>> members_;
};

// Growth of cones: output by output, each time by the nearest output that fits.

/// The neurons of a cone while it grows, level by level.
class GrowingCone {
public:
  /// max_width: limit of the neurons of a level. The levels must outlive this object.
  GrowingCone(ConeLevels const& levels, std::size_t max_width)
      : levels_(levels), max_width_(max_width), members_(levels), sizes_(levels.num_levels()) {}

  void clear() { members_.clear(); }

  /// Adds an output and all that it depends on; returns the number of new neurons. If a level would become too wide,
  /// leaves the cone unchanged and returns nullopt.
  std::optional<std::size_t> add(NeuronIndex output) {
    for (std::size_t level = 0; level < sizes_.size(); ++level) sizes_[level] = members_[level].size();
    members_.add(sizes_.size() - 1, output);
    bool fits = true;
    std::size_t added = 0;
    for (std::size_t level = sizes_.size(); level-- > 0 && fits;) {
      for (std::size_t i = sizes_[level]; level > 0 && i < members_[level].size(); ++i) {
        for (NeuronIndex const input : levels_.inputs(level, members_[level][i])) members_.add(level - 1, input);
      }
      added += members_[level].size() - sizes_[level];
      fits = members_[level].size() <= max_width_;
    }
    if (fits) return added;
    undo();
    return std::nullopt;
  }

  /// Undoes the last add().
  void undo() {
    for (std::size_t level = 0; level < sizes_.size(); ++level) members_.cut(level, sizes_[level]);
  }

  std::vector<NeuronIndex> const& members(std::size_t level) const { return members_[level]; }
  /// The neurons of a level that the last add() brought.
  std::span<NeuronIndex const> added(std::size_t level) const {
    return std::span(members_[level]).subspan(sizes_[level]);
  }
  std::vector<NeuronIndex> const& outputs() const { return members_[sizes_.size() - 1]; }

private:
  ConeLevels const& levels_;
  std::size_t max_width_;
  NeuronSets members_;
  std::vector<std::size_t> sizes_; ///< sizes of the levels before the last add()
};

/// Open outputs that depend on a neuron of the cone. The nearest brings the fewest new neurons.
class ConeCandidates {
public:
  /// is_open: whether each output is in no cone yet. Both must outlive this object.
  ConeCandidates(ConeLevels const& levels, std::vector<bool> const& is_open)
      : levels_(levels), is_open_(is_open), seen_(levels), num_before_(levels.num_levels()) {}

  void clear() {
    seen_.clear();
    candidates_.clear();
  }

  /// To be called after each add() to the cone: adds the outputs that depend on its new neurons.
  void learn(GrowingCone const& cone) {
    constexpr std::size_t max_candidates = 1024; // many times what a cone has room for: a neuron may have more readers
    for (std::size_t level = 0; level < num_before_.size(); ++level) {
      num_before_[level] = seen_[level].size();
      for (NeuronIndex const neuron : cone.added(level)) seen_.add(level, neuron);
    }
    for (std::size_t level = 0; level + 1 < num_before_.size(); ++level) {
      for (std::size_t i = num_before_[level]; i < seen_[level].size(); ++i) {
        for (NeuronIndex const reader : levels_.readers(level, seen_[level][i])) seen_.add(level + 1, reader);
      }
    }
    auto const& outputs = seen_[num_before_.size() - 1];
    for (std::size_t i = num_before_.back(); i < outputs.size() && candidates_.size() < max_candidates; ++i)
      if (is_open_[outputs[i]]) candidates_.push_back({0, outputs[i]}); // 0: nearest() examines it first
  }

  /// The candidate that brings the fewest new neurons, the lowest of equal ones; nullopt if none fits. Examines only
  /// the candidates that looked nearest before, so it may miss a nearer one.
  std::optional<NeuronIndex> nearest(GrowingCone& cone) {
    constexpr std::size_t looked_at = 24;
    constexpr std::size_t does_not_fit = std::numeric_limits<std::size_t>::max();
    std::erase_if(candidates_, [&](Candidate const& candidate) { return !is_open_[candidate.output]; });
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

private:
  struct Candidate {
    std::size_t added; ///< new neurons when it was examined last; may be fewer now
    NeuronIndex output;
    auto operator<=>(Candidate const&) const = default;
  };

  ConeLevels const& levels_;
  std::vector<bool> const& is_open_;
  std::vector<Candidate> candidates_;
  NeuronSets seen_; ///< neurons that depend on one of the cone
  std::vector<std::size_t> num_before_;
};

/// Turns the neurons of a cone into steps. In each layer, neurons that free the most slots come first.
class ConeScheduler {
public:
  /// The levels must outlive this object.
  ConeScheduler(ConeLevels const& levels, ConeLimits limits) : levels_(levels), limits_(limits) {
    for (std::size_t level = 0; level < levels.num_levels(); ++level) {
      slot_of_.emplace_back(levels.size(level), std::uint16_t(0));
      num_readers_.emplace_back(levels.size(level), 0);
    }
  }

  /// The cone with its steps; nullopt if they need more slots or rounds than the limits allow.
  std::optional<Cone> schedule(GrowingCone const& members) {
    Cone cone;
    cone.inputs = members.members(0);
    std::ranges::sort(cone.inputs);
    num_slots_ = cone.inputs.size();
    free_slots_.clear();
    for (std::size_t i = 0; i < cone.inputs.size(); ++i) slot_of_[0][cone.inputs[i]] = static_cast<std::uint16_t>(i);
    for (std::size_t level = 1; level < levels_.num_levels(); ++level) {
      schedule_level(level, members.members(level), cone);
      if (num_slots_ > limits_.max_slots || cone.num_rounds > limits_.max_rounds) return std::nullopt;
    }
    cone.outputs = members.outputs();
    std::ranges::sort(cone.outputs);
    for (NeuronIndex const output : cone.outputs) cone.output_slots.push_back(slot_of_.back()[output]);
    return cone;
  }

private:
  void schedule_level(std::size_t level, std::vector<NeuronIndex> left, Cone& cone) {
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
      free_slots_.insert(free_slots_.end(), freed.begin(), freed.end());
      for (std::size_t step = first; step < cone.steps.size(); ++step) {
        cone.steps[step].target = take_slot();
        slot_of_[level][cone.steps[step].neuron] = cone.steps[step].target;
      }
    }
  }

  std::uint16_t take_slot() {
    if (free_slots_.empty()) return static_cast<std::uint16_t>(num_slots_++);
    std::uint16_t const slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  /// Removes and returns the neuron that reads the most values for the last time, the first of equal ones.
  NeuronIndex take_best(std::size_t level, std::vector<NeuronIndex>& left) const {
    std::size_t best = 0;
    std::size_t most = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      std::size_t frees = 0;
      for (NeuronIndex const input : levels_.inputs(level, left[i]))
        frees += num_readers_[level - 1][input] == 1 ? 1 : 0;
      if (frees <= most) continue;
      most = frees;
      best = i;
    }
    NeuronIndex const neuron = left[best];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    return neuron;
  }

  void read_inputs(std::size_t level, NeuronIndex neuron, std::vector<std::uint16_t>& freed, Cone& cone) {
    for (NeuronIndex const input : levels_.inputs(level, neuron)) {
      cone.edge_slots.push_back(slot_of_[level - 1][input]);
      if (--num_readers_[level - 1][input] == 0) freed.push_back(slot_of_[level - 1][input]);
    }
    cone.steps.push_back({static_cast<std::uint16_t>(level - 1), 0, neuron});
  }

  ConeLevels const& levels_;
  ConeLimits limits_;
  std::vector<std::vector<std::uint16_t>> slot_of_; ///< [level][neuron]: slot in the present cone
  std::size_t num_slots_ = 0;                       ///< slots of the present cone
  std::vector<std::uint16_t> free_slots_;           ///< those of them that hold no value
  std::vector<std::vector<int>> num_readers_;       ///< [level][neuron]: readers not scheduled yet; 0 between cones
};

/// Finds cones whose levels have at most max_width neurons each.
std::optional<ConeRun> find_cones_of_width(ConeLevels const& levels, std::size_t max_width, ConeLimits limits) {
  ConeRun run;
  run.num_layers = levels.num_levels() - 1;
  std::size_t num_neurons = 0; // neurons of all levels, without repetition
  for (std::size_t level = 1; level < levels.num_levels(); ++level) num_neurons += levels.size(level);
  std::size_t num_steps = 0;
  std::size_t num_outputs = 0;
  std::size_t const all_outputs = levels.size(levels.num_levels() - 1);
  std::vector<bool> is_open(all_outputs, true);
  std::size_t first_open = 0; // all_outputs if none is
  ConeCandidates candidates(levels, is_open);
  GrowingCone cone(levels, max_width);
  ConeScheduler scheduler(levels, limits);
  while (first_open < all_outputs) {
    cone.clear();
    candidates.clear();
    for (;;) {
      auto next = candidates.nearest(cone);
      // Without a candidate, begin another component, if there is room.
      if (!next && first_open < all_outputs) next = static_cast<NeuronIndex>(first_open);
      if (!next || !cone.add(*next)) break;
      is_open[*next] = false;
      while (first_open < all_outputs && !is_open[first_open]) ++first_open;
      candidates.learn(cone);
    }
    if (cone.outputs().empty()) return std::nullopt;
    auto scheduled = scheduler.schedule(cone);
    if (!scheduled) return std::nullopt;
    num_steps += scheduled->steps.size();
    num_outputs += scheduled->outputs.size();
    // Give up: on average each neuron would be in more than two cones.
    if (num_steps * all_outputs > 2 * num_neurons * num_outputs) return std::nullopt;
    run.cones.push_back(std::move(*scheduled));
  }
  return run;
}

/// Runs that begin with the first of these layers, by number of layers, up to the length at which the cost per neuron
/// gets much worse than the best.
std::vector<ConeRun> runs_from(std::span<Layer const> layers, ConeLimits limits) {
  constexpr double little = 1.2;
  std::vector<ConeRun> runs;
  double best = std::numeric_limits<double>::infinity(); // cost per neuron
  double num_neurons = 0.0;
  for (std::size_t count = 1; count <= std::min(max_layers_per_run, layers.size()); ++count) {
    if (!suits_cones(layers[count - 1])) break;
    auto run = find_cones(layers.first(count), limits);
    if (!run) break;
    num_neurons += static_cast<double>(layers[count - 1].num_outputs());
    double const cost = run->cost() / num_neurons;
    runs.push_back(std::move(*run));
    if (cost > little * best) break;
    best = std::min(best, cost);
  }
  return runs;
}

} // namespace

double ConeRun::cost() const {
  double cost = 0.0;
  for (Cone const& cone : cones) {
    cost += static_cast<double>(cone.inputs.size() + cone.outputs.size()) +
            cost_of_step * static_cast<double>(cone.steps.size()) +
            cost_of_edge * static_cast<double>(cone.edge_slots.size());
  }
  return cost;
}

bool suits_cones(Layer const& layer) {
  SparseMatrix const& matrix = layer.weights;
  if (static_cast<double>(matrix.num_entries()) > max_mean_edges * static_cast<double>(matrix.num_rows)) return false;
  for (std::size_t output = 0; output < matrix.num_rows; ++output) {
    if (matrix.row_size(output) == 0 || matrix.row_size(output) > max_edges_per_output) return false;
  }
  return matrix.num_rows > 0;
}

std::optional<ConeRun> find_cones(std::span<Layer const> layers, ConeLimits limits) {
  ConeLevels const levels(layers);
  // A schedule needs a few slots more than the widest level has neurons; only scheduling shows how many.
  for (std::size_t width = limits.max_slots / 8 * 7; width > limits.max_slots / 4; width -= limits.max_slots / 8) {
    auto run = find_cones_of_width(levels, width, limits);
    if (run) return run;
  }
  return std::nullopt;
}

std::vector<ConeRun> place_cone_runs(std::span<Layer const> layers, ConeLimits limits, double other_cost) {
  std::vector<std::vector<ConeRun>> runs(layers.size()); // runs[i][n - 1]: n layers from layer i on
  for_each_on_host_threads(layers.size(),
                           [&](std::size_t first) { runs[first] = runs_from(layers.subspan(first), limits); });
  // Dynamic programming. least[i]: least cost of the first i layers; how[i]: length of the run that ends there, or 0.
  std::vector<double> least(layers.size() + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> how(layers.size() + 1, 0);
  least[0] = 0.0;
  for (std::size_t first = 0; first < layers.size(); ++first) {
    double const alone = least[first] + other_cost * static_cast<double>(layers[first].num_outputs());
    if (alone < least[first + 1]) {
      least[first + 1] = alone;
      how[first + 1] = 0;
    }
    for (std::size_t count = 1; count <= runs[first].size(); ++count) {
      double const cost = least[first] + runs[first][count - 1].cost();
      if (cost >= least[first + count]) continue;
      least[first + count] = cost;
      how[first + count] = count;
    }
  }
  std::vector<ConeRun> placed;
  for (std::size_t last = layers.size(); last > 0; last -= std::max<std::size_t>(1, how[last])) {
    std::size_t const count = how[last];
    if (count == 0) continue;
    placed.push_back(std::move(runs[last - count][count - 1]));
    placed.back().first_layer = last - count;
  }
  std::ranges::reverse(placed);
  return placed;
}

} // namespace varve
