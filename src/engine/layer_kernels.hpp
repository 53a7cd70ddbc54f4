#pragma once

#include "engine/layer_stream.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/leaf_sums.hpp"
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
  } else {
    TrainedForward<ExecutionSpace, Scalar> kernel{};
    set_common(kernel);
    kernel.edges = arrays.edges;
    trained_forward(space, kernel, num_leaves);
  }
}

/// What the backward pass of a layer reads and writes besides its weights.
template <class ExecutionSpace, class Scalar>
struct BackwardPanels {
  TrainingPanel<ExecutionSpace, Scalar> inputs;       ///< activations of the layer before
  TrainingPanel<ExecutionSpace, Scalar> errors;       ///< of the layer's outputs
  TrainingPanel<ExecutionSpace, Scalar> input_errors; ///< result: of the outputs of the layer before
  TreeLevels<ExecutionSpace, Scalar> levels;          ///< result: OfLayer::num_gradients() gradients
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
    kernel.levels = panels.levels;
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
  bool const is_dense = layer.format.has_dense_backward;
  if (is_dense && before != nullptr) dense(TrainedDenseBackward<ExecutionSpace, Scalar, true>{});
  if (is_dense && before == nullptr) dense(TrainedDenseBackward<ExecutionSpace, Scalar, false>{});
  if (!is_dense && before != nullptr) by_edges(FusedBackward<ExecutionSpace, Scalar, true>{});
  if (!is_dense && before == nullptr) by_edges(FusedBackward<ExecutionSpace, Scalar, false>{});
}

/// Launches the sums of a layer's gradients over all leaves, by edge in training order, to `totals` from `first` on.
/// Does not fence.
template <class ExecutionSpace, class Scalar>
void launch_totals(ExecutionSpace const& space, DirectedLayer<ExecutionSpace, Scalar> const& arrays,
                   TreeLevels<ExecutionSpace, Scalar> const& levels, DeviceArray<ExecutionSpace, Scalar> const& totals,
                   std::size_t first) {
  if (arrays.places.size() != 0) {
    pick_levels(space, PickLevels<ExecutionSpace, Scalar>{levels, arrays.places, totals, first});
  } else {
    add_levels(space, AddLevels<ExecutionSpace, Scalar>{levels, totals, first});
  }
}

} // namespace varve
