#include "engine/training_plan.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

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
  if (*options.micro_batch % sizes.leaf != 0 || !std::has_single_bit(leaves)) {
    fail<UsageError>("a micro-batch of {} samples was asked for, expected {} times a power of two",
                     *options.micro_batch, sizes.leaf);
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
    leaves = std::bit_floor(leaves - 1);
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
  auto const between = widths_between(widths, keep_every);
  std::size_t neurons = 2 * std::ranges::max(widths); // two panels of errors
  for (std::size_t number = 0; number < widths.size(); number += keep_every) neurons += widths[number];
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
  std::size_t const tree_levels = static_cast<std::size_t>(std::bit_width(std::bit_ceil(num_leaves)));
  GrowthLimits limits;
  // at most two numbers per leaf in the tree over leaves, one per level in the tree over micro-batches, and the total
  limits.bytes_per_sum = (2 * num_leaves + tree_levels + 1) * scalar_bytes;
  limits.bytes_per_sum += sizeof(std::uint32_t) + scalar_bytes; // list of candidates
  constexpr std::size_t numbered = std::size_t{1} << 32U;       // places of a block are numbered by 32 bits
  limits.max_sums = std::max(widest, std::min({places, bytes / limits.bytes_per_sum, numbered}));
  return limits;
}

} // namespace varve
