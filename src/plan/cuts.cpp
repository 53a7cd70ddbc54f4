#include "plan/cuts.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace varve {
namespace {

/// A function that gives the seconds of one launch of layers [first, last) of a run.
auto launch_seconds(std::span<PlannedLayer const> layers, std::span<double const> live, LaunchCosts const& costs) {
  std::vector<double> stored(layers.size() + 1, 0.0); // [layer]: stored weights of all layers before it
  for (std::size_t i = 0; i < layers.size(); ++i)
    stored[i + 1] = stored[i] + static_cast<double>(layers[i].choice.num_stored);
  return [layers, live, costs, stored = std::move(stored)](std::size_t first, std::size_t last) {
    double const computed = std::max(live[first], costs.full) * (stored[last] - stored[first]);
    double const moved = live[last] * static_cast<double>(layers[last - 1].num_outputs);
    return costs.launch + costs.weight * computed + costs.moved_value * moved;
  };
}

} // namespace

std::vector<double> live_shares(std::vector<LiveShare> const& known, std::size_t num_layers) {
  constexpr double least = 1e-9; // instead of a share of 0, which has no logarithm
  std::vector<double> shares(num_layers + 1, known.back().share);
  for (std::size_t i = 0; i + 1 < known.size(); ++i) {
    auto const& [first, before] = known[i];
    auto const& [last, after] = known[i + 1];
    double const rate = std::log(std::max(after, least) / std::max(before, least)) /
                        static_cast<double>(std::max(last - first, std::size_t(1)));
    for (std::size_t layer = first; layer < last && layer <= num_layers; ++layer)
      shares[layer] = before * std::exp(rate * static_cast<double>(layer - first));
  }
  return shares;
}

double seconds_of(std::vector<std::size_t> const& cuts, std::span<PlannedLayer const> layers,
                  std::span<double const> live, LaunchCosts const& costs) {
  auto const seconds_of_launch = launch_seconds(layers, live, costs);
  double seconds = 0.0;
  std::size_t first = 0;
  for (std::size_t const cut : cuts) {
    seconds += seconds_of_launch(first, cut);
    first = cut;
  }
  return seconds + seconds_of_launch(first, layers.size());
}

LaunchCuts choose_cuts(std::span<PlannedLayer const> layers, std::span<double const> live, LaunchCosts const& costs) {
  auto const seconds_of_launch = launch_seconds(layers, live, costs);
  // Dynamic programming. least[i]: least seconds of the first i layers; from[i]: first layer of their last launch.
  std::vector<double> least(layers.size() + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> from(layers.size() + 1, 0);
  least[0] = 0.0;
  for (std::size_t last = 1; last <= layers.size(); ++last) {
    for (std::size_t first = 0; first < last; ++first) {
      double const seconds = least[first] + seconds_of_launch(first, last);
      if (seconds >= least[last]) continue;
      least[last] = seconds;
      from[last] = first;
    }
  }
  LaunchCuts chosen{{}, least.back()};
  for (std::size_t first = from.back(); first > 0; first = from[first]) chosen.cuts.push_back(first);
  std::ranges::reverse(chosen.cuts);
  return chosen;
}

namespace {

/// One past the last layer that may revive dead samples; 0 if there is none.
std::size_t num_layers_that_may_revive(std::vector<PlannedLayer> const& layers) {
  auto const last =
      std::find_if_not(layers.rbegin(), layers.rend(), [](auto const& layer) { return layer.keeps_zero; });
  return static_cast<std::size_t>(layers.rend() - last);
}

} // namespace

LaunchCutter::LaunchCutter(std::vector<PlannedLayer> layers, DeviceTraits const& device, CutRequest const& request)
    : layers_(std::move(layers)),
      device_(device),
      request_(request),
      saturates_from_(request.finds_saturated ? find_saturation(layers_) : layers_.size()),
      dead_for_ever_(num_layers_that_may_revive(layers_)) {
  constexpr std::size_t layers_of_many = 8;
  for (std::size_t number = dead_for_ever_ + layers_of_many; seeks_saturated() && number < layers_.size(); ++number) {
    // The few samples that remain when samples saturate would not fill the device in large tiles.
    LayerChoice& choice = layers_[number].choice;
    if (!choice.is_fused() || choice.fused_tile != FusedTile::large) continue;
    choice.fused_tile = FusedTile::small;
    choice.tile_samples = device_.fused_with(FusedTile::small).tile_samples;
  }
}

std::vector<Step> LaunchCutter::steps() const {
  std::vector<Step> steps;
  for (std::size_t first = 0; first < layers_.size();) {
    std::size_t last = first;
    while (last + 1 < layers_.size() && is_joinable(first, last + 1) && !is_cut_before(last + 1)) ++last;
    last = std::max(last, first + layers_[first].choice.num_layers - 1);
    auto const step = step_of(first, last);
    if (layers_[first].strips.empty()) {
      steps.push_back(step);
    } else {
      std::ranges::copy(strips_of(step), std::back_inserter(steps));
    }
    first = last + 1;
  }
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) steps[i].next_tile_samples = steps[i + 1].choice.tile_samples;
  steps.back().lists_live = true;
  steps.back().next_tile_samples = steps.back().choice.tile_samples;
  return steps;
}

Step LaunchCutter::step_of(std::size_t first, std::size_t last) const {
  Step step;
  step.first_layer = first;
  step.last_layer = last;
  step.choice = layers_[first].choice;
  step.kernel = step.choice.kernel;
  step.segment = layers_[first].segment;
  for (std::size_t number = first + 1; number <= last; ++number) {
    LayerChoice const& choice = layers_[number].choice;
    step.choice.num_edges += choice.num_edges;
    if (step.choice.num_layers > 1) continue; // the first layer of a run of cones has the weights of the whole run
    step.choice.num_stored += choice.num_stored;
  }
  step.choice.num_layers = last - first + 1;
  step.keeps_dead = last + 1 < dead_for_ever_;
  step.joins_equal = joins_equal_after(last);
  constexpr std::size_t first_look = 15; // the first search pays off this many layers after saturates_from
  step.lists_saturated = seeks_saturated() && last + 1 >= saturates_from_ + first_look;
  if (step.kernel == KernelName::split_output || step.kernel == KernelName::small_batch) {
    step.lists_live = false; // with few samples, a list costs more than it saves
    if (step.kernel == KernelName::small_batch) step.lists_saturated = step.joins_equal = false; // searches do, too
  } else if (step.kernel != KernelName::fused) {
    step.lists_live = lists_after(last, entry_of(step.kernel).reads_lists);
  }
  if (first > 0 || request_.first == FirstLayerInput::tiles) return step;
  step.reads_bits = request_.first == FirstLayerInput::own_bits;
  if (step.reads_bits) return step;
  step.choice = request_.first_choice;
  step.kernel = step.choice.kernel;
  step.lists_live = step.lists_saturated = step.joins_equal =
      false; // few samples die in the first layer, and its kernels do not stamp live samples
  return step;
}

/// The launches of a layer in strips. Samples are not listed or searched before the last strip.
std::vector<Step> LaunchCutter::strips_of(Step const& whole) const {
  std::vector<Step> steps;
  for (auto const& strip : layers_[whole.first_layer].strips) {
    Step& step = steps.emplace_back(whole);
    step.choice = strip.choice;
    step.segment = strip.segment;
    step.strip = steps.size() - 1;
    step.num_strips = layers_[whole.first_layer].strips.size();
    if (!step.ends_layer()) step.lists_live = step.lists_saturated = step.joins_equal = false;
  }
  return steps;
}

/// True if one launch that begins with layer `first` may include layer `layer`.
bool LaunchCutter::is_joinable(std::size_t first, std::size_t layer) const {
  if (first == 0 && request_.first != FirstLayerInput::tiles) return false;
  LayerChoice const& one = layers_[first].choice;
  LayerChoice const& other = layers_[layer].choice;
  bool const are_joined = one.is_fused() || one.kernel == KernelName::small_batch; // kernels that join layers
  return are_joined && one.kernel == other.kernel && one.format == other.format && one.fused_tile == other.fused_tile &&
         layers_[first].segment == layers_[layer].segment;
}

bool LaunchCutter::is_cut_before(std::size_t layer) const {
  if (!layers_[layer].choice.is_fused()) return false;
  return is_learned_cut_.empty() ? is_compacted_before(layer) : is_learned_cut_[layer];
}

/// True if the live samples are compacted before this layer of a fused kernel, as long as no batch has been observed:
/// not before dead samples stay dead, then often, then rarely. Measured on the challenge's data: half of the samples
/// die within four layers and nearly all within nine; if samples saturate, the others leave within twenty.
bool LaunchCutter::is_compacted_before(std::size_t layer) const {
  if (layer <= dead_for_ever_) return layer == dead_for_ever_ && layer > 0;
  std::size_t const since = layer - dead_for_ever_;
  if (layers_[layer].choice.fused_tile == FusedTile::with_image)
    return since == 3 || since == 5 || since == 8; // rarely, because a launch costs as much as a layer
  if (seeks_saturated() && (since == 12 || since == 14 || since == 16 || since == 20)) return true;
  return since >= 3 && since <= 9;
}

/// True if the live samples are listed after this layer. A list costs one or two short launches. Kernels that do not
/// read lists must also compact the samples, which costs about as much as a layer, so for them samples are listed only
/// after many have died.
bool LaunchCutter::lists_after(std::size_t layer, bool reads_lists) const {
  std::size_t const done = layer + 1;
  if (done < dead_for_ever_) return false;
  std::size_t const since = done - dead_for_ever_;
  if (since > 16) return since % (since > 32 ? 8 : 4) == 0;
  if (reads_lists) return since >= 2;
  return (since >= 3 && since <= 6) || (since >= 8 && since % 2 == 0);
}

/// True if equal samples are searched after the launch that ends with this layer. A search costs as much as several
/// short launches and reads the panel once or twice, so it pays if many layers are left and samples have become equal.
/// It does not pay if saturated samples leave, because these are the equal ones (measured: perf/TRIED.md). Searches
/// stop after the first one that finds few.
bool LaunchCutter::joins_equal_after(std::size_t layer) const {
  std::size_t const done = layer + 1;
  bool const looks = request_.finds_equal && !seeks_saturated();
  if (!looks || done < dead_for_ever_ || done + 8 > layers_.size()) return false;
  std::size_t const since = done - dead_for_ever_;
  return since == 8 || since == 9 || since == 16 || since == 24 || since == 32 || since == 64;
}

bool LaunchCutter::learn(std::vector<LiveShare> const& known, std::size_t num_samples) {
  constexpr double worth_it = 0.97; // new cuts must take less than this part of the time of the present ones
  auto live = live_shares(known, layers_.size());
  for (double& share : live) share *= static_cast<double>(num_samples);
  std::vector<bool> is_cut(layers_.size(), false);
  double seconds = 0.0;
  double seconds_before = 0.0;
  for (std::size_t first = 0; first < layers_.size();) {
    std::size_t last = first + 1;
    while (last < layers_.size() && is_joinable(first, last)) ++last;
    if (layers_[first].choice.is_fused() && last - first > 1) {
      std::size_t const may_leave = std::clamp(dead_for_ever_, first, last);
      if (may_leave > first && may_leave < last) is_cut[may_leave] = true;
      auto const [best, before] = cut_run(may_leave, last, live);
      for (std::size_t const cut : best.cuts) is_cut[may_leave + cut] = true;
      seconds += best.seconds;
      seconds_before += before;
    }
    first = last;
  }
  if (seconds >= worth_it * seconds_before || is_cut == is_learned_cut_) return false;
  is_learned_cut_ = std::move(is_cut);
  return true;
}

/// The best cuts of layers [first, last), which can be one launch, and the seconds of these layers with the present
/// cuts. live: number of live samples before each layer of the network.
std::pair<LaunchCuts, double> LaunchCutter::cut_run(std::size_t first, std::size_t last,
                                                    std::vector<double> const& live) const {
  if (first == last) return {};
  auto const layers = std::span(layers_).subspan(first, last - first);
  std::vector<std::size_t> cuts_so_far;
  for (std::size_t number = first + 1; number < last; ++number)
    if (is_cut_before(number)) cuts_so_far.push_back(number - first);
  auto const& traits = device_.fused_with(layers_[first].choice.fused_tile);
  FormatName const format = layers_[first].choice.format;
  bool const has_blocks = format == FormatName::pattern_blocks || format == FormatName::dense;
  auto const& costs = has_blocks ? traits.block_costs : traits.single_costs;
  std::span<double const> const of_run(live.data() + first, layers.size() + 1);
  return {choose_cuts(layers, of_run, costs), seconds_of(cuts_so_far, layers, of_run, costs)};
}

template <class Scalar>
double kept_cap(Layer const& layer) {
  if (!layer.activation.has_cap()) return 0.0;
  if (layer.num_inputs() == 0 || layer.num_outputs() == 0) return 0.0;
  auto const& weights = layer.weights;
  auto const cap = static_cast<Scalar>(layer.activation.cap);
  if (!std::isfinite(cap)) return 0.0; // activations are clipped to the largest finite number
  for (std::size_t output = 0; output < layer.num_outputs(); ++output) {
    Scalar sum = 0;
    for (EdgeOffset edge = weights.row_pointers[output]; edge < weights.row_pointers[output + 1]; ++edge)
      sum = std::fma(static_cast<Scalar>(weights.value(edge)), cap, sum);
    auto const x = static_cast<Scalar>(static_cast<double>(sum) + layer.bias_of(output));
    if (!(x >= cap)) return 0.0;
  }
  return layer.activation.cap;
}

template double kept_cap<float>(Layer const&);
template double kept_cap<double>(Layer const&);

std::size_t find_saturation(std::vector<PlannedLayer> const& layers) {
  std::size_t from = layers.size();
  if (from == 0) return from;
  double const cap = layers.back().kept_cap;
  while (from > 1 && layers[from - 1].kept_cap > 0.0 && layers[from - 1].kept_cap == cap) --from;
  if (from < layers.size() && layers.at(from - 1).cap != cap) ++from;
  return from;
}

} // namespace varve
