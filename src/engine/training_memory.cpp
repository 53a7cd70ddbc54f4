#include "engine/training_memory.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {
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

} // namespace varve
