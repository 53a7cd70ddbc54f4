#pragma once

#include "engine/growth_blocks.hpp"
#include "engine/layer_stream.hpp"
#include "engine/step_shares.hpp"
#include "engine/step_transport.hpp"
#include "engine/training_memory.hpp"
#include "engine/training_step.hpp"
#include "network/leaf.hpp"
#include "network/representable.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {

inline std::size_t num_ranks(TrainingOptions const& options) {
  return options.exchange ? options.exchange->num_ranks() : 1;
}

/// The limits of the search for free places (PatternKind::rigl).
template <class Scalar>
GrowthLimits limits_of_growth(Network const& network, TrainingOptions const& options) {
  return growth_limits(network, num_leaves<Scalar>(options.batch), sizeof(Scalar), options.growth_bytes);
}

/// Plans the memory of a training on one rank. Throws what plan_training() throws, and InputError if the precision
/// cannot represent the network.
template <class Scalar>
class TrainingSizesOf {
public:
  static TrainingPlan plan(TrainingKernels<Scalar> const& kernels, Network const& network, TrainingOptions options,
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
      of_weights += bytes_of_exchange(network, leaves, ranks, options.reads_peers);
      leaves = std::min(leaves, ((leaves + ranks - 1) / ranks * 5 + 3) / 4);
      options.batch = std::min(options.batch, leaves * sizes.leaf);
    }
    std::size_t const of_growth = bytes_of_growth(network, options);
    auto const of_levels = [&](std::size_t size) { return bytes_of_levels(kernels, network, leaves, formats, size); };
    auto const series = series_of(kernels, network, formats);
    using Levels = LeafLevels<Scalar>;
    std::size_t const of_layer = of_levels(kWholeLayers);
    sizes.weight_bytes =
        of_weights + of_growth + of_layer + Levels::max_bytes_of_series(kernels, series.max_sums(), leaves);
    sizes.group_bytes = Levels::max_bytes_of_groups(kernels, network.num_layers(), of_layer) - of_layer;
    auto const costs = costs_of_layers(network, formats);
    for (auto const size : strip_sizes(std::ranges::max(costs), std::ranges::max(sizes.widths)))
      sizes.streamed.push_back({size, bytes_of_stream(network, formats, size) + of_growth + of_levels(size)});
    sizes.streamed_host_bytes = of_weights;
    auto const limits = memory_limits({options.memory_limit, options.device_memory_limit, {}}, options.backend);
    auto plan = plan_training(sizes, options, limits);
    for (auto const& format : formats) {
      plan.num_dense_forward += format.has_dense_forward ? 1 : 0;
      plan.num_dense_backward += format.has_dense_backward ? 1 : 0;
    }
    if (!plan.streams_weights) plan.num_series_layers = series.num_layers_in_series(plan.micro_batch / plan.leaf);
    plan.num_cut_layers = static_cast<std::size_t>(
        std::ranges::count_if(costs, [&](std::size_t cost) { return cost > plan.strip_size; }));
    return plan;
  }

private:
  /// The series of a network if the sums of all gradients are adjacent, which gives the longest series.
  static SeriesRule series_of(TrainingKernels<Scalar> const& kernels, Network const& network,
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
  static std::size_t bytes_of_levels(TrainingKernels<Scalar> const& kernels, Network const& network,
                                     std::size_t num_leaves, std::vector<TrainedFormat> const& formats,
                                     std::size_t strip_size) {
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
  static std::size_t bytes_of_stream(Network const& network, std::vector<TrainedFormat> const& formats,
                                     std::size_t strip_size) {
    std::size_t most = 0;
    for (auto const& layer : network.layers())
      most = std::max(most, std::min(layer.num_edges(), strip_size) + layer.num_outputs());
    return LayerStream<Scalar>::bytes_for(network, formats, strip_size) + most * sizeof(Scalar);
  }

  /// The weights and rows of each layer, in the direction that has more.
  static std::vector<std::size_t> costs_of_layers(Network const& network, std::vector<TrainedFormat> const& formats) {
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
  static std::size_t bytes_of_growth(Network const& network, TrainingOptions const& options) {
    if (options.pattern != PatternKind::rigl) return 0;
    auto const limits = limits_of_growth<Scalar>(network, options);
    EdgeOffset max_edges = 0;
    for (auto const& layer : network.layers()) max_edges = std::max(max_edges, layer.num_edges());
    return limits.max_sums * limits.bytes_per_sum + max_edges * sizeof(NeuronIndex);
  }

  /// Bytes for sums of subtrees that are sent and received, with equal shares, and for arrays that other ranks read.
  static std::size_t bytes_of_exchange(Network const& network, std::size_t leaves, std::size_t ranks,
                                       bool reads_peers) {
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
};

} // namespace varve
