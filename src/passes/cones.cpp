#include "passes/cones.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace varve {
namespace {

constexpr std::size_t max_edges_per_output = 8;
constexpr double max_mean_edges = 3.0;
constexpr std::size_t max_layers_per_run = 12;

/// Cost of a step and of an edge against that of moving an activation, measured on an H200.
constexpr double cost_of_step = 0.25;
constexpr double cost_of_edge = 0.25;

/// Neurons by level: level 0 are the inputs of the run, level k + 1 the outputs of its layer k.
class Levels {
public:
  explicit Levels(std::span<Layer const> layers) : layers_(layers) {
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
  std::vector<std::vector<EdgeOffset>> reader_pointers_; ///< by level of the neuron that is read
  std::vector<std::vector<NeuronIndex>> readers_;
};

/// The neurons of a cone while it grows, level by level.
class GrowingCone {
public:
  GrowingCone(Levels const& levels, std::size_t max_width) : levels_(levels), max_width_(max_width) {
    for (std::size_t level = 0; level < levels.num_levels(); ++level) is_in_.emplace_back(levels.size(level), false);
    members_.resize(levels.num_levels());
    sizes_.resize(levels.num_levels());
  }

  void clear() {
    for (std::size_t level = 0; level < members_.size(); ++level) cut(level, 0);
  }

  /// Adds an output and what it depends on; gives the number of new neurons, or nothing, the cone being as before, if
  /// a level would become too wide.
  std::optional<std::size_t> add(NeuronIndex output) {
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

  /// Takes the last output added back.
  void undo() {
    for (std::size_t level = 0; level < members_.size(); ++level) cut(level, sizes_[level]);
  }

  std::vector<NeuronIndex> const& members(std::size_t level) const { return members_[level]; }
  /// Those that came with the last output added.
  std::span<NeuronIndex const> added(std::size_t level) const {
    return std::span<NeuronIndex const>(members_[level]).subspan(sizes_[level]);
  }
  std::vector<NeuronIndex> const& outputs() const { return members_.back(); }

private:
  void put(std::size_t level, NeuronIndex neuron) {
    if (is_in_[level][neuron]) return;
    is_in_[level][neuron] = true;
    members_[level].push_back(neuron);
  }

  void cut(std::size_t level, std::size_t size) {
    for (std::size_t i = size; i < members_[level].size(); ++i) is_in_[level][members_[level][i]] = false;
    members_[level].resize(size);
  }

  Levels const& levels_;
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
class Candidates {
public:
  Candidates(Levels const& levels, OpenOutputs const& open) : levels_(levels), open_(open) {
    for (std::size_t level = 0; level < levels.num_levels(); ++level) is_seen_.emplace_back(levels.size(level), false);
    seen_.resize(levels.num_levels());
    num_new_.resize(levels.num_levels());
  }

  void clear() {
    for (std::size_t level = 0; level < seen_.size(); ++level) {
      for (NeuronIndex const neuron : seen_[level]) is_seen_[level][neuron] = false;
      seen_[level].clear();
    }
    candidates_.clear();
  }

  /// After the cone has grown: whatever depends on its new neurons.
  void learn(GrowingCone const& cone) {
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
    for (std::size_t i = num_new_.back(); i < seen_.back().size(); ++i)
      candidates_.push_back({0, seen_.back()[i]}); // to be looked at next
  }

  /// The one that brings the fewest new neurons, as far as the nearest of them tell, the lowest of several; nothing if
  /// none fits.
  std::optional<NeuronIndex> nearest(GrowingCone& cone) {
    std::erase_if(candidates_, [&](Candidate const& candidate) { return !open_.is_open(candidate.output); });
    std::ranges::sort(candidates_);
    for (std::size_t i = 0; i < std::min(looked_at, candidates_.size()); ++i) {
      auto const added = cone.add(candidates_[i].output);
      if (added) cone.undo();
      candidates_[i].added = added.value_or(does_not_fit); // nor will it later
    }
    std::erase_if(candidates_, [](Candidate const& candidate) { return candidate.added == does_not_fit; });
    if (candidates_.empty()) return std::nullopt;
    return std::ranges::min(candidates_).output;
  }

private:
  static constexpr std::size_t looked_at = 24;
  static constexpr std::size_t does_not_fit = std::numeric_limits<std::size_t>::max();
  struct Candidate {
    std::size_t added; ///< new neurons, when it was looked at; now perhaps fewer
    NeuronIndex output;
    auto operator<=>(Candidate const&) const = default;
  };

  void see(std::size_t level, NeuronIndex neuron) {
    if (is_seen_[level][neuron]) return;
    is_seen_[level][neuron] = true;
    seen_[level].push_back(neuron);
  }

  Levels const& levels_;
  OpenOutputs const& open_;
  std::vector<Candidate> candidates_;
  std::vector<std::vector<bool>> is_seen_; ///< depends on something of the cone
  std::vector<std::vector<NeuronIndex>> seen_;
  std::vector<std::size_t> num_new_;
};

/// Lists the slots that hold nothing.
class Slots {
public:
  explicit Slots(std::size_t count) : num_slots_(count) {}
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

/// Turns the neurons of a cone into steps: in each layer first those that free the most slots. Nothing if that takes
/// more slots than there may be.
class Scheduler {
public:
  Scheduler(Levels const& levels, ConeLimits limits) : levels_(levels), limits_(limits) {
    for (std::size_t level = 0; level < levels.num_levels(); ++level) {
      slot_of_.emplace_back(levels.size(level), std::uint16_t(0));
      num_readers_.emplace_back(levels.size(level), 0);
    }
  }

  std::optional<Cone> schedule(GrowingCone const& members) {
    Cone cone;
    cone.inputs = members.members(0);
    std::ranges::sort(cone.inputs);
    Slots slots(cone.inputs.size());
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

private:
  void schedule_level(std::size_t level, std::vector<NeuronIndex> left, Slots& slots, Cone& cone) {
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

  /// Removes the neuron that reads most values for the last time, the first of several.
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

  Levels const& levels_;
  ConeLimits limits_;
  std::vector<std::vector<std::uint16_t>> slot_of_; ///< by level and neuron, of the cone at hand
  std::vector<std::vector<int>> num_readers_;       ///< that have not read yet; 0 between cones
};

/// Cones whose levels have at most this many neurons each.
std::optional<ConeRun> find_cones_of_width(Levels const& levels, std::size_t max_width, ConeLimits limits) {
  ConeRun run;
  run.num_layers = levels.num_levels() - 1;
  std::size_t num_neurons = 0; // of the run, each once
  for (std::size_t level = 1; level < levels.num_levels(); ++level) num_neurons += levels.size(level);
  std::size_t num_steps = 0;
  std::size_t num_outputs = 0;
  std::size_t const all_outputs = levels.size(levels.num_levels() - 1);
  OpenOutputs open(all_outputs);
  Candidates candidates(levels, open);
  GrowingCone cone(levels, max_width);
  Scheduler scheduler(levels, limits);
  while (open.first() < all_outputs) {
    cone.clear();
    candidates.clear();
    for (;;) {
      auto next = candidates.nearest(cone);
      // Without one: another component, if there is room.
      if (!next && open.first() < all_outputs) next = static_cast<NeuronIndex>(open.first());
      if (!next || !cone.add(*next)) break;
      open.close(*next);
      candidates.learn(cone);
    }
    if (cone.outputs().empty()) return std::nullopt;
    auto scheduled = scheduler.schedule(cone);
    if (!scheduled) return std::nullopt;
    num_steps += scheduled->steps.size();
    num_outputs += scheduled->outputs.size();
    // Most neurons in more than two cones: not worth going on.
    if (num_steps * all_outputs > 2 * num_neurons * num_outputs) return std::nullopt;
    run.cones.push_back(std::move(*scheduled));
  }
  return run;
}

/// The runs that begin with the first of these layers, by their number of layers, as long as more layers are better or
/// little worse than fewer.
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

std::size_t ConeRun::num_steps() const {
  return std::accumulate(cones.begin(), cones.end(), std::size_t(0),
                         [](std::size_t sum, Cone const& cone) { return sum + cone.steps.size(); });
}

std::size_t ConeRun::num_inputs() const {
  return std::accumulate(cones.begin(), cones.end(), std::size_t(0),
                         [](std::size_t sum, Cone const& cone) { return sum + cone.inputs.size(); });
}

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
  Levels const levels(layers);
  // A schedule takes some slots more than the widest level has neurons; how many is seen when it is made.
  for (std::size_t width = limits.max_slots / 8 * 7; width > limits.max_slots / 4; width -= limits.max_slots / 8) {
    auto run = find_cones_of_width(levels, width, limits);
    if (run) return run;
  }
  return std::nullopt;
}

std::vector<PlacedConeRun> place_cone_runs(std::span<Layer const> layers, ConeLimits limits, double other_cost) {
  std::vector<std::vector<ConeRun>> runs(layers.size()); // by first layer and number of layers less one
  for_each_on_host_threads(layers.size(),
                           [&](std::size_t first) { runs[first] = runs_from(layers.subspan(first), limits); });
  // least[i]: cost of the first i layers; how[i]: the layers of the run that ends there, or 0
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
  std::vector<PlacedConeRun> placed;
  for (std::size_t last = layers.size(); last > 0; last -= std::max<std::size_t>(1, how[last])) {
    std::size_t const count = how[last];
    if (count > 0) placed.push_back({last - count, std::move(runs[last - count][count - 1])});
  }
  std::ranges::reverse(placed);
  return placed;
}

} // namespace varve
