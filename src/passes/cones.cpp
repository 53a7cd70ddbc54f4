#include "passes/cones.hpp"

#include "core/host_threads.hpp"
#include "passes/cone_growth.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace varve {
namespace {

constexpr std::size_t max_edges_per_output = 8;
constexpr double max_mean_edges = 3.0;
constexpr std::size_t max_layers_per_run = 12;

/// Cost of a step and of an edge, in units of moving an activation through memory; measured on an H200.
constexpr double cost_of_step = 0.25;
constexpr double cost_of_edge = 0.25;

/// Finds cones whose levels have at most max_width neurons each.
std::optional<ConeRun> find_cones_of_width(ConeLevels const& levels, std::size_t max_width, ConeLimits limits) {
  ConeRun run;
  run.num_layers = levels.num_levels() - 1;
  std::size_t num_neurons = 0; // neurons of all levels, without repetition
  for (std::size_t level = 1; level < levels.num_levels(); ++level) num_neurons += levels.size(level);
  std::size_t num_steps = 0;
  std::size_t num_outputs = 0;
  std::size_t const all_outputs = levels.size(levels.num_levels() - 1);
  OpenOutputs open(all_outputs);
  ConeCandidates candidates(levels, open);
  GrowingCone cone(levels, max_width);
  ConeScheduler scheduler(levels, limits);
  while (open.first() < all_outputs) {
    cone.clear();
    candidates.clear();
    for (;;) {
      auto next = candidates.nearest(cone);
      // Without a candidate, begin another component, if there is room.
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
  ConeLevels const levels(layers);
  // A schedule needs a few slots more than the widest level has neurons; only scheduling shows how many.
  for (std::size_t width = limits.max_slots / 8 * 7; width > limits.max_slots / 4; width -= limits.max_slots / 8) {
    auto run = find_cones_of_width(levels, width, limits);
    if (run) return run;
  }
  return std::nullopt;
}

std::vector<PlacedConeRun> place_cone_runs(std::span<Layer const> layers, ConeLimits limits, double other_cost) {
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
  std::vector<PlacedConeRun> placed;
  for (std::size_t last = layers.size(); last > 0; last -= std::max<std::size_t>(1, how[last])) {
    std::size_t const count = how[last];
    if (count > 0) placed.push_back({last - count, std::move(runs[last - count][count - 1])});
  }
  std::ranges::reverse(placed);
  return placed;
}

} // namespace varve
