#pragma once

#include "engine/layer_kernels.hpp"
#include "engine/layer_series.hpp"
#include "engine/leaf_levels.hpp"
#include "engine/trained_weights.hpp"
#include "kernels/layer_series.hpp"
#include "kernels/tuning/training.hpp"

#include <compare>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace varve {

/// The rule for layers on an execution space.
template <class ExecutionSpace>
SeriesRule series_rule(std::vector<SeriesLayer> layers) {
  using Tune = TrainingTuning<ExecutionSpace>;
  return {std::move(layers), +Tune::series_sums, +Tune::launch_edges,
          static_cast<std::size_t>(num_processors(ExecutionSpace()))};
}

/// The same for the layers of weights.
template <class ExecutionSpace, class Weights>
SeriesRule series_rule_of(Weights const& weights) {
  std::vector<SeriesLayer> layers;
  for (auto const& layer : weights.layers()) {
    layers.push_back({static_cast<std::size_t>(layer.num_inputs), static_cast<std::size_t>(layer.num_outputs),
                      layer.edges.num_edges(), layer.first_weight_sum, layer.first_bias_sum,
                      layer.format.has_dense_forward, layer.format.has_dense_backward});
  }
  return series_rule<ExecutionSpace>(std::move(layers));
}

/// Launches of series of layers on a host. Kernels hold thirty Views a layer, whose copies take 3 to 14 % of a step of
/// narrow layers: they are made once.
template <class ExecutionSpace, class Scalar>
class SeriesPasses {
public:
  using Panel = TrainingPanel<ExecutionSpace, Scalar>;
  using Sums = DeviceArray<ExecutionSpace, Scalar>;
  using Forward = SeriesForward<ExecutionSpace, Scalar>;
  using Backward = SeriesBackward<ExecutionSpace, Scalar>;

  /// Layers [first, last] over num_leaves leaves from first_leaf on; errors: which of two panels holds those of the
  /// last layer's outputs.
  struct Part {
    std::size_t first, last, first_leaf, num_leaves;
    int errors;

    auto operator<=>(Part const&) const = default;
  };

  /// To be called when arrays or panels have been replaced.
  void forget() {
    forward_.clear();
    backward_.clear();
  }

  /// The forward pass of layers [first, end). panel_of(l): the inputs of layer l. Does not fence.
  template <class Layers, class PanelOf>
  void forward(ExecutionSpace const& space, Layers const& layers, std::size_t first, std::size_t end,
               PanelOf const& panel_of, int num_leaves) {
    auto& kernels = forward_[{first, end}];
    if (kernels.empty()) {
      for (std::size_t number = first; number < end; ++number)
        kernels.push_back(forward_of(layers[number], panel_of(number), panel_of(number + 1)));
    }
    series_forward(space, Forward{list_of(kernels)}, num_leaves);
  }

  /// The backward pass of a part. panel_of(l) and errors_of(0 or 1): the part's lines of the inputs of layer l and of
  /// the panels of errors. Writes the sums of gradients to `totals`. Does not fence.
  template <class Layers, class PanelOf, class ErrorsOf>
  void backward(ExecutionSpace const& space, Layers const& layers, Part const& part, PanelOf const& panel_of,
                ErrorsOf const& errors_of, LeafLevels<ExecutionSpace, Scalar> const& leaf_levels, Sums const& totals) {
    auto const& begin = layers[part.first];
    auto const& top = layers[part.last];
    auto const levels = leaf_levels.of_series(
        space, top.first_weight_sum + top.edges.num_edges() - begin.first_weight_sum,
        top.first_bias_sum + static_cast<std::size_t>(top.num_outputs) - begin.first_bias_sum, part.num_leaves);
    if (backward_.size() == most_parts) backward_.clear();
    auto& kernels = backward_[part];
    if (kernels.empty()) {
      int errors = part.errors;
      for (std::size_t number = part.last + 1; number-- > part.first; errors = 1 - errors) {
        auto const& layer = layers[number];
        GradientLevels<ExecutionSpace, Scalar> const own{
            levels.weights.from_sum(layer.first_weight_sum - begin.first_weight_sum),
            levels.bias.from_sum(layer.first_bias_sum - begin.first_bias_sum)};
        kernels.push_back(backward_of(layer, layers[number - 1].activation,
                                      {panel_of(number), errors_of(errors), errors_of(1 - errors), own}));
      }
    }
    series_backward(space, Backward{list_of(kernels), levels.weights.leaves_per_run, levels.weights.num_leaves});
    add_levels(space, AddLevels<ExecutionSpace, Scalar>{levels.weights, totals, begin.first_weight_sum, levels.bias,
                                                        begin.first_bias_sum});
  }

private:
  static constexpr std::size_t most_parts = 4096;
  using Arrays = DirectedLayer<ExecutionSpace, Scalar>;

  template <class OfLayer>
  static typename Forward::Layer forward_of(OfLayer const& layer, Panel const& inputs, Panel const& outputs) {
    typename Forward::Layer kernel{};
    LayerStrip const whole{0, static_cast<std::size_t>(layer.num_outputs), 0, layer.edges.num_edges()};
    set_forward(kernel, layer, Arrays{whole, layer.edges.by_output, layer.by_output, layer.bias, layer.dense_places},
                inputs, outputs);
    kernel.edges = layer.edges.by_output;
    return kernel;
  }

  template <class OfLayer>
  static typename Backward::Layer backward_of(OfLayer const& layer, Activation const& before,
                                              BackwardPanels<ExecutionSpace, Scalar> const& panels) {
    typename Backward::Layer kernel{};
    LayerStrip const whole{0, static_cast<std::size_t>(layer.num_inputs), 0, layer.edges.num_edges()};
    set_backward(kernel.edges, layer,
                 Arrays{whole, layer.edges.by_input, layer.backward_weights(), layer.bias, layer.dense_places}, &before,
                 panels);
    kernel.edges.edges = layer.edges.by_input;
    kernel.bias = {panels.errors, panels.levels.bias, layer.num_outputs, 1};
    return kernel;
  }

  std::map<std::pair<std::size_t, std::size_t>, std::vector<typename Forward::Layer>> forward_;
  std::map<Part, std::vector<typename Backward::Layer>> backward_;
};

} // namespace varve
