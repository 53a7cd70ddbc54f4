#include "engine/training_plan.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "engine/layer_stream.hpp"
#include "engine/leaf_levels.hpp"
#include "engine/step_shares.hpp"
#include "engine/step_transport.hpp"
#include "engine/training_step.hpp"
#include "network/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace varve {
namespace {

/// Densities (edges per place) from which on dense kernels are faster on CPUs, as measured (perf/TRIED.md). Forward:
/// with few inputs, where a leaf's lines hardly exceed an L1, and with more. Backward: in the first layer, which has
/// gradients alone, and in others, for layers of many outputs; in the first layer also for some outputs.
constexpr std::size_t few_inputs = 256;
constexpr double min_forward_of_few = 0.46;
constexpr double min_forward = 0.33;
constexpr std::size_t many_outputs = 256;
constexpr double min_first_gradient = 0.52;
constexpr double min_backward = 0.70;
constexpr std::size_t some_outputs = 32;
constexpr double min_first_gradient_of_some = 0.68;
/// The same on GPUs, for both passes of any layer.
constexpr double min_on_gpus = 0.5;
constexpr double never = std::numeric_limits<double>::infinity();

double min_of_backward(bool is_first_layer, std::size_t num_outputs) {
  if (num_outputs >= many_outputs) return is_first_layer ? min_first_gradient : min_backward;
  return is_first_layer && num_outputs >= some_outputs ? min_first_gradient_of_some : never;
}

} // namespace

std::vector<TrainedFormat> choose_trained_formats(Network const& network, TrainingOptions const& options) {
  auto const asked = options.format;
  if (asked && *asked != FormatName::dense && *asked != FormatName::csr)
    throw UsageError("layers in training are stored as csr or dense, not as " + to_string(*asked));
  std::vector<TrainedFormat> formats;
  for (auto const& layer : network.layers()) {
    auto const places = static_cast<double>(layer.num_inputs()) * static_cast<double>(layer.num_outputs());
    bool const can_be_dense = layer.num_edges() > 0 && places <= std::numeric_limits<std::uint32_t>::max();
    auto const is_dense = [&](double least) {
      if (!can_be_dense || asked == FormatName::csr) return false;
      return asked == FormatName::dense || static_cast<double>(layer.num_edges()) >= least * places;
    };
    if (has_own_memory(options.backend)) {
      formats.push_back({is_dense(min_on_gpus), is_dense(min_on_gpus)});
      continue;
    }
    double const forward = layer.num_inputs() <= few_inputs ? min_forward_of_few : min_forward;
    formats.push_back({is_dense(forward), is_dense(min_of_backward(formats.empty(), layer.num_outputs()))});
  }
  return formats;
}

namespace {

std::size_t largest_power_of_two(std::size_t number) {
  std::size_t power = 1;
  while (2 * power <= number) power *= 2;
  return power;
}

/// All values of keep_every, ascending, that need fewer bytes than every smaller value.
std::vector<std::size_t> useful_intervals(TrainingSizes const& sizes) {
  std::vector<std::size_t> intervals = {1};
  std::size_t least = bytes_per_leaf(sizes, 1);
  for (std::size_t interval = 2; interval < sizes.widths.size(); ++interval) {
    std::size_t const bytes = bytes_per_leaf(sizes, interval);
    if (bytes >= least) continue;
    least = bytes;
    intervals.push_back(interval);
  }
  return intervals;
}

void require_valid(TrainingSizes const& sizes, TrainingOptions const& options) {
  if (options.batch == 0) throw UsageError("a mini-batch needs at least 1 sample");
  if (options.keep_every && *options.keep_every == 0)
    throw UsageError("activations can be kept of every layer (1), every second (2) and so on, not of every 0th");
  if (!options.micro_batch) return;
  std::size_t const leaves = *options.micro_batch / sizes.leaf;
  if (*options.micro_batch % sizes.leaf != 0 || leaves == 0 || leaves != largest_power_of_two(leaves)) {
    throw UsageError(fmt::format("a micro-batch of {} samples was asked for, expected {} times a power of two",
                                 *options.micro_batch, sizes.leaf));
  }
}

/// Completes a plan so that it fits `limit` bytes on the device, with weights of one of these sizes. Returns false if
/// nothing fits; the plan is then the smallest one.
bool fits(TrainingPlan& plan, TrainingSizes const& sizes, std::vector<StreamedSize> const& weights,
          TrainingOptions const& options, std::size_t limit) {
  std::size_t const all_leaves = (options.batch + sizes.leaf - 1) / sizes.leaf;
  auto const intervals =
      options.keep_every ? std::vector{std::min(*options.keep_every, sizes.widths.size())} : useful_intervals(sizes);
  std::size_t leaves = options.micro_batch ? std::min(all_leaves, *options.micro_batch / sizes.leaf) : all_leaves;
  for (;;) {
    for (auto const interval : intervals) {
      plan.keep_every = interval;
      plan.micro_batch = leaves * sizes.leaf;
      plan.activation_bytes = leaves * bytes_per_leaf(sizes, interval);
      for (auto const& size : weights) {
        plan.strip_size = size.strip_size;
        plan.weight_bytes = size.bytes;
        if (plan.weight_bytes + plan.activation_bytes <= limit) return true;
      }
    }
    if (leaves == 1 || options.micro_batch) return false;
    leaves = largest_power_of_two(leaves - 1);
  }
}

/// The error that names the memory of the smallest plan.
ResourceError memory_error(TrainingPlan const& plan, TrainingOptions const& options, MemoryLimits const& limits) {
  if (plan.streams_weights && plan.weight_bytes + plan.activation_bytes <= limits.device) {
    return ResourceError(fmt::format(
        "training needs {} bytes of host memory for weights that are streamed to the device, but {} bytes may be used; "
        "take a device or a host with more memory",
        plan.host_bytes, limits.host_weights));
  }
  return ResourceError(fmt::format(
      "training needs {} bytes for {} and {} bytes for the activations of {} samples, but {} bytes may be used; {}",
      plan.weight_bytes, plan.streams_weights ? "weights that are streamed" : "weights", plan.activation_bytes,
      plan.micro_batch, limits.device,
      options.micro_batch || options.keep_every
          ? "leave the micro-batch and --recompute to Varve, or take a device with more memory"
          : "take a device with more memory"));
}

} // namespace

std::vector<std::size_t> strip_sizes(std::size_t largest, std::size_t widest) {
  std::size_t const least = std::max(strip_size_of_row(widest), std::min(largest / 256, std::size_t{1} << 18U));
  std::vector<std::size_t> sizes = {kWholeLayers};
  for (std::size_t size = largest / 2; size >= least; size /= 2) sizes.push_back(size);
  return sizes;
}

std::size_t bytes_per_leaf(TrainingSizes const& sizes, std::size_t keep_every) {
  auto const& widths = sizes.widths;
  std::size_t neurons = 2 * std::ranges::max(widths); // two panels of errors
  std::vector<std::size_t> between(keep_every - 1, 0);
  for (std::size_t number = 0; number < widths.size(); ++number) {
    if (number % keep_every == 0) {
      neurons += widths[number];
    } else {
      between[number % keep_every - 1] = std::max(between[number % keep_every - 1], widths[number]);
    }
  }
  for (auto const width : between) neurons += width;
  return neurons * sizes.leaf * sizes.scalar_bytes;
}

TrainingPlan plan_training(TrainingSizes const& sizes, TrainingOptions const& options, MemoryLimits const& limits) {
  require_valid(sizes, options);
  TrainingPlan plan;
  plan.leaf = sizes.leaf;
  if (fits(plan, sizes, {{kWholeLayers, sizes.weight_bytes}}, options, limits.device)) {
    if (plan.weight_bytes + plan.activation_bytes + sizes.group_bytes <= limits.device)
      plan.group_bytes = sizes.group_bytes;
    return plan;
  }
  if (limits.host_weights == 0) throw memory_error(plan, options, limits);
  plan.streams_weights = true;
  plan.host_bytes = sizes.streamed_host_bytes;
  if (!fits(plan, sizes, sizes.streamed, options, limits.device) || plan.host_bytes > limits.host_weights)
    throw memory_error(plan, options, limits);
  return plan;
}

GrowthLimits growth_limits(Network const& network, std::size_t num_leaves, std::size_t scalar_bytes,
                           std::size_t bytes) {
  std::size_t widest = 1;
  std::size_t places = 0;
  for (auto const& layer : network.layers()) {
    widest = std::max(widest, layer.num_inputs());
    places += layer.num_inputs() * layer.num_outputs();
  }
  std::size_t tree_levels = 1;
  while (std::size_t{1} << (tree_levels - 1) < num_leaves) ++tree_levels;
  GrowthLimits limits;
  // at most two numbers per leaf in the tree over leaves, one per level in the tree over micro-batches, and the total
  limits.bytes_per_sum = (2 * num_leaves + tree_levels + 1) * scalar_bytes;
  limits.bytes_per_sum += sizeof(std::uint32_t) + scalar_bytes; // list of candidates
  constexpr std::size_t numbered = std::size_t{1} << 32U;       // places of a block are numbered by 32 bits
  limits.max_sums = std::max(widest, std::min({places, bytes / limits.bytes_per_sum, numbered}));
  return limits;
}

namespace {

/// The series of a network if the sums of all gradients are adjacent, which gives the longest series.
template <class Scalar>
SeriesRule series_of(TrainingKernels<Scalar> const& kernels, Network const& network,
                     std::vector<TrainedFormat> const& formats) {
  std::vector<SeriesLayer> layers;
  SeriesLayer next;
  for (std::size_t number = 0; number < formats.size(); ++number) {
    auto const& layer = network.layers()[number];
    next.num_inputs = layer.num_inputs();
    next.num_outputs = layer.num_outputs();
    next.num_edges = layer.num_edges();
    next.has_dense_forward = formats[number].has_dense_forward;
    next.has_dense_backward = formats[number].has_dense_backward;
    layers.push_back(next);
    next.first_weight_sum += next.num_edges;
    next.first_bias_sum += next.num_outputs;
  }
  return series_rule(kernels.traits(), std::move(layers));
}

/// Upper bound in bytes of the device memory for sums of leaves, with strips of this size.
template <class Scalar>
std::size_t bytes_of_levels(TrainingKernels<Scalar> const& kernels, Network const& network, std::size_t num_leaves,
                            std::vector<TrainedFormat> const& formats, std::size_t strip_size) {
  std::map<std::tuple<std::size_t, std::size_t, bool>, std::size_t> max_edges; // by inputs, outputs and format
  for (std::size_t number = 0; number < formats.size(); ++number) {
    auto const& layer = network.layers()[number];
    auto& edges = max_edges[{layer.num_inputs(), layer.num_outputs(), formats[number].has_dense_backward}];
    edges = std::max(edges, static_cast<std::size_t>(layer.num_edges()));
  }
  std::size_t most = 0;
  for (auto const& [shape, edges] : max_edges) {
    auto const& [inputs, outputs, is_dense] = shape;
    most = std::max(most,
                    LeafLevels<Scalar>::max_bytes(kernels, inputs, outputs, edges, is_dense, strip_size, num_leaves));
  }
  return most;
}

/// Device memory in bytes for layers that are streamed in strips of this size, and their gradients.
template <class Scalar>
std::size_t bytes_of_stream(Network const& network, std::vector<TrainedFormat> const& formats, std::size_t strip_size) {
  std::size_t most = 0;
  for (auto const& layer : network.layers())
    most = std::max(most, std::min(layer.num_edges(), strip_size) + layer.num_outputs());
  return LayerStream<Scalar>::bytes_for(network, formats, strip_size) + most * sizeof(Scalar);
}

/// The weights and rows of each layer, in the direction that has more.
std::vector<std::size_t> costs_of_layers(Network const& network, std::vector<TrainedFormat> const& formats) {
  std::vector<std::size_t> costs;
  for (std::size_t number = 0; number < formats.size(); ++number) {
    auto const& layer = network.layers()[number];
    std::size_t const places = layer.num_inputs() * layer.num_outputs();
    costs.push_back(std::max((formats[number].has_dense_forward ? places : layer.num_edges()) + layer.num_outputs(),
                             (formats[number].has_dense_backward ? places : layer.num_edges()) + layer.num_inputs()));
  }
  return costs;
}

/// Device memory in bytes for the gradients of free places.
template <class Scalar>
std::size_t bytes_of_growth(Network const& network, TrainingOptions const& options) {
  if (options.pattern != PatternKind::rigl) return 0;
  auto const limits = limits_of_growth<Scalar>(network, options);
  EdgeOffset max_edges = 0;
  for (auto const& layer : network.layers()) max_edges = std::max(max_edges, layer.num_edges());
  return limits.max_sums * limits.bytes_per_sum + max_edges * sizeof(NeuronIndex);
}

/// Bytes for sums of subtrees that are sent and received, with equal shares, and for arrays that other ranks read.
template <class Scalar>
std::size_t bytes_of_exchange(Network const& network, std::size_t leaves, std::size_t ranks, bool reads_peers) {
  std::size_t num_edges = 0;
  std::size_t num_outputs = 0;
  for (auto const& layer : network.layers()) {
    num_edges += layer.num_edges();
    num_outputs += layer.num_outputs();
  }
  std::size_t const num_sums = num_edges + num_outputs;
  auto const cuts = LeafShares(ranks, {}).cuts(leaves);
  std::size_t subtrees = 0;
  std::size_t max_of_rank = 1;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const own = subtrees_of(cuts[rank], cuts[rank + 1], leaves).size();
    subtrees += own;
    max_of_rank = std::max(max_of_rank, own);
  }
  std::size_t const of_sums = num_sums * sizeof(Scalar) * (max_of_rank - 1 + (subtrees + ranks - 1) / ranks);
  auto const read = StepTransport<Scalar>::peer_bytes(num_outputs, num_edges, num_sums, max_of_rank);
  return of_sums + (reads_peers ? read : 0);
}

} // namespace

template <class Scalar>
TrainingPlan plan_of_training(TrainingKernels<Scalar> const& kernels, Network const& network, TrainingOptions options,
                              std::vector<TrainedFormat> const& formats) {
  require_valid(options.optimizer);
  TrainingSizes sizes;
  sizes.widths.push_back(network.num_inputs());
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    require_representable(network.layers()[number], number, options.precision, network.name());
    sizes.widths.push_back(network.layers()[number].num_outputs());
  }
  sizes.leaf = kLeafSamples<Scalar>;
  sizes.scalar_bytes = sizeof(Scalar);
  std::size_t const ranks = num_ranks(options);
  std::size_t leaves = num_leaves<Scalar>(options.batch);
  std::size_t of_weights = TrainedWeights<Scalar>::bytes_for(network, options.optimizer, ranks, formats);
  if (ranks > 1) { // a fourth more than equal shares; larger shares need several passes
    of_weights += bytes_of_exchange<Scalar>(network, leaves, ranks, options.reads_peers);
    leaves = std::min(leaves, ((leaves + ranks - 1) / ranks * 5 + 3) / 4);
    options.batch = std::min(options.batch, leaves * sizes.leaf);
  }
  std::size_t const of_growth = bytes_of_growth<Scalar>(network, options);
  auto const of_levels = [&](std::size_t size) { return bytes_of_levels(kernels, network, leaves, formats, size); };
  auto const series = series_of(kernels, network, formats);
  using Levels = LeafLevels<Scalar>;
  std::size_t const of_layer = of_levels(kWholeLayers);
  sizes.weight_bytes =
      of_weights + of_growth + of_layer + Levels::max_bytes_of_series(kernels, series.max_sums(), leaves);
  sizes.group_bytes = Levels::max_bytes_of_groups(kernels, network.num_layers(), of_layer) - of_layer;
  auto const costs = costs_of_layers(network, formats);
  for (auto const size : strip_sizes(std::ranges::max(costs), std::ranges::max(sizes.widths)))
    sizes.streamed.push_back({size, bytes_of_stream<Scalar>(network, formats, size) + of_growth + of_levels(size)});
  sizes.streamed_host_bytes = of_weights;
  auto const limits = memory_limits({options.memory_limit, options.device_memory_limit, {}}, options.backend);
  auto plan = plan_training(sizes, options, limits);
  for (auto const& format : formats) {
    plan.num_dense_forward += format.has_dense_forward ? 1 : 0;
    plan.num_dense_backward += format.has_dense_backward ? 1 : 0;
  }
  if (!plan.streams_weights) plan.num_series_layers = series.num_layers_in_series(plan.micro_batch / plan.leaf);
  plan.num_cut_layers =
      static_cast<std::size_t>(std::ranges::count_if(costs, [&](std::size_t cost) { return cost > plan.strip_size; }));
  return plan;
}

template TrainingPlan plan_of_training(TrainingKernels<float> const&, Network const&, TrainingOptions,
                                       std::vector<TrainedFormat> const&);
template TrainingPlan plan_of_training(TrainingKernels<double> const&, Network const&, TrainingOptions,
                                       std::vector<TrainedFormat> const&);

} // namespace varve
