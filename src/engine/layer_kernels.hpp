#pragma once

#include "engine/layer_stream.hpp"
#include "engine/leaf_levels.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/sliced_backward.hpp"
#include "kernels/sliced_forward.hpp"
#include "kernels/trained_dense_backward.hpp"
#include "kernels/trained_dense_forward.hpp"
#include "kernels/trained_forward.hpp"

#include <cstddef>

namespace varve {

/// Launches the forward pass of a layer over num_leaves leaves, by the kernel of its format. Does not fence.
template <class ExecutionSpace, class Scalar, class OfLayer>
void launch_forward(ExecutionSpace const& space, OfLayer const& layer,
                    DirectedLayer<ExecutionSpace, Scalar> const& arrays,
                    TrainingPanel<ExecutionSpace, Scalar> const& inputs,
                    TrainingPanel<ExecutionSpace, Scalar> const& outputs, int num_leaves) {
  auto const set_common = [&](auto& kernel) {
    kernel.weights = arrays.weights;
    kernel.bias = arrays.bias;
    kernel.bounds = bounds_of<Scalar>(layer.activation);
    kernel.inputs = inputs;
    kernel.outputs = outputs;
    kernel.num_inputs = layer.num_inputs;
  };
  if (layer.format.has_dense_forward) {
    TrainedDenseForward<ExecutionSpace, Scalar> kernel{};
    set_common(kernel);
    kernel.num_outputs = layer.num_outputs;
    trained_dense_forward(space, kernel, num_leaves);
    return;
  }
  auto const by_edges = [&](auto kernel, auto const& launch) {
    set_common(kernel);
    kernel.edges = arrays.edges;
    launch(kernel);
  };
  if constexpr (!kOnHost<ExecutionSpace>) {
    if (LineSlice<ExecutionSpace, Scalar>::fits(layer.num_inputs)) {
      by_edges(SlicedForward<ExecutionSpace, Scalar>{},
               [&](auto const& kernel) { sliced_forward(space, kernel, num_leaves); });
      return;
    }
  }
  by_edges(TrainedForward<ExecutionSpace, Scalar>{},
           [&](auto const& kernel) { trained_forward(space, kernel, num_leaves); });
}

/// What the backward pass of a layer reads and writes besides its weights.
template <class ExecutionSpace, class Scalar>
struct BackwardPanels {
  TrainingPanel<ExecutionSpace, Scalar> inputs;       ///< activations of the layer before
  TrainingPanel<ExecutionSpace, Scalar> errors;       ///< of the layer's outputs
  TrainingPanel<ExecutionSpace, Scalar> input_errors; ///< result: of the outputs of the layer before
  GradientLevels<ExecutionSpace, Scalar> levels;      ///< result: gradients
};

/// Launches the backward pass of a layer, by the kernel of its format. before: the activation of the layer before, or
/// null for the first layer, which has gradients alone. Does not fence.
template <class ExecutionSpace, class Scalar, class OfLayer>
void launch_backward(ExecutionSpace const& space, OfLayer const& layer,
                     DirectedLayer<ExecutionSpace, Scalar> const& arrays, Activation const* before,
                     BackwardPanels<ExecutionSpace, Scalar> const& panels) {
  auto const set_common = [&](auto& kernel) {
    kernel.weights = arrays.weights;
    kernel.inputs = panels.inputs;
    kernel.errors = panels.errors;
    kernel.input_errors = panels.input_errors;
    if (before != nullptr) kernel.derivative = Derivative<Scalar>(*before);
    kernel.levels = panels.levels.weights;
    kernel.num_outputs = layer.num_outputs;
  };
  auto const by_edges = [&](auto kernel) {
    set_common(kernel);
    kernel.edges = arrays.edges;
    fused_backward(space, kernel);
  };
  auto const dense = [&](auto kernel) {
    set_common(kernel);
    kernel.num_inputs = layer.num_inputs;
    trained_dense_backward(space, kernel);
  };
  if constexpr (!kOnHost<ExecutionSpace>) {
    auto const in_slices = [&](auto kernel) {
      set_common(kernel);
      kernel.edges = arrays.edges;
      kernel.bias_levels = panels.levels.bias;
      sliced_backward(space, kernel);
    };
    if (panels.levels.weights.slices > 1) {
      if (before != nullptr) in_slices(SlicedBackward<ExecutionSpace, Scalar, true>{});
      if (before == nullptr) in_slices(SlicedBackward<ExecutionSpace, Scalar, false>{});
      return;
    }
  }
  neuron_sums(space, NeuronSums<ExecutionSpace, Scalar>{panels.errors, panels.levels.bias, layer.num_outputs, 1});
  bool const is_dense = layer.format.has_dense_backward;
  if (is_dense && before != nullptr) dense(TrainedDenseBackward<ExecutionSpace, Scalar, true>{});
  if (is_dense && before == nullptr) dense(TrainedDenseBackward<ExecutionSpace, Scalar, false>{});
  if (!is_dense && before != nullptr) by_edges(FusedBackward<ExecutionSpace, Scalar, true>{});
  if (!is_dense && before == nullptr) by_edges(FusedBackward<ExecutionSpace, Scalar, false>{});
}

/// Launches the sums of a layer's gradients over all leaves: of weights, by edge in training order, to `totals` from
/// `first` on, of biases from first_bias on. Does not fence.
template <class ExecutionSpace, class Scalar>
void launch_totals(ExecutionSpace const& space, DirectedLayer<ExecutionSpace, Scalar> const& arrays,
                   GradientLevels<ExecutionSpace, Scalar> const& levels,
                   DeviceArray<ExecutionSpace, Scalar> const& totals, std::size_t first, std::size_t first_bias) {
  if (arrays.places.size() != 0) {
    pick_levels(space, PickLevels<ExecutionSpace, Scalar>{levels.weights, arrays.places, totals, first});
    add_levels(space, AddLevels<ExecutionSpace, Scalar>{levels.bias, totals, first_bias});
  } else {
    add_levels(space, AddLevels<ExecutionSpace, Scalar>{levels.weights, totals, first, levels.bias, first_bias});
  }
}

} // namespace varve
