#pragma once

#include "engine/layer_stream.hpp"
#include "engine/leaf_levels.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/trained_dense.hpp"
#include "kernels/trained_forward.hpp"

#include <cstddef>

namespace varve {

/// The panel from the line of a strip's first row on.
template <class Panel>
Panel from_row(Panel const& panel, LayerStrip const& strip) {
  if (strip.first_row == 0 || panel.size() == 0) return panel; // a subview would take time, as many layers would feel
  return Kokkos::subview(panel, std::make_pair(strip.first_row, panel.size()));
}

/// Sets what all forward kernels read and write for a strip of a layer.
template <class ExecutionSpace, class Scalar, class Kernel, class OfLayer>
void set_forward(Kernel& kernel, OfLayer const& layer, DirectedLayer<ExecutionSpace, Scalar> const& arrays,
                 TrainingPanel<ExecutionSpace, Scalar> const& inputs,
                 TrainingPanel<ExecutionSpace, Scalar> const& outputs) {
  kernel.weights = arrays.weights;
  kernel.bias = arrays.bias;
  kernel.bounds = bounds_of<Scalar>(layer.activation);
  kernel.inputs = inputs;
  kernel.outputs = from_row(outputs, arrays.strip);
  kernel.num_inputs = layer.num_inputs;
  kernel.stride = layer.num_outputs;
}

/// Launches the forward pass of a strip of a layer over num_leaves leaves, by the kernel of its format. Does not fence.
template <class ExecutionSpace, class Scalar, class OfLayer>
void launch_forward(ExecutionSpace const& space, OfLayer const& layer,
                    DirectedLayer<ExecutionSpace, Scalar> const& arrays,
                    TrainingPanel<ExecutionSpace, Scalar> const& inputs,
                    TrainingPanel<ExecutionSpace, Scalar> const& outputs, int num_leaves) {
  if (layer.format.has_dense_forward) {
    TrainedDenseForward<ExecutionSpace, Scalar> kernel{};
    set_forward(kernel, layer, arrays, inputs, outputs);
    kernel.num_outputs = static_cast<int>(arrays.strip.num_rows);
    trained_dense_forward(space, kernel, num_leaves);
    return;
  }
  auto const by_edges = [&](auto kernel, auto const& launch) {
    set_forward(kernel, layer, arrays, inputs, outputs);
    kernel.edges = arrays.edges;
    launch(kernel);
  };
  if constexpr (!kOnHost<ExecutionSpace>) {
    if (LineHalf<ExecutionSpace, Scalar>::fits(layer.num_inputs)) {
      by_edges(ScratchForward<ExecutionSpace, Scalar>{},
               [&](auto const& kernel) { scratch_forward(space, kernel, num_leaves); });
      return;
    }
  }
  by_edges(TrainedForward<ExecutionSpace, Scalar>{},
           [&](auto const& kernel) { trained_forward(space, kernel, num_leaves); });
}

/// What the backward pass of a strip of a layer reads and writes besides its weights.
template <class ExecutionSpace, class Scalar>
struct BackwardPanels {
  TrainingPanel<ExecutionSpace, Scalar> inputs;       ///< activations of the layer before
  TrainingPanel<ExecutionSpace, Scalar> errors;       ///< of the layer's outputs
  TrainingPanel<ExecutionSpace, Scalar> input_errors; ///< result: of the outputs of the layer before
  GradientLevels<ExecutionSpace, Scalar> levels;      ///< result: gradients
};

/// Sets what all backward kernels read and write for a strip of a layer. before: the activation of the layer before, or
/// null for the first layer, which has gradients alone.
template <class ExecutionSpace, class Scalar, class Kernel, class OfLayer>
void set_backward(Kernel& kernel, OfLayer const& layer, DirectedLayer<ExecutionSpace, Scalar> const& arrays,
                  Activation const* before, BackwardPanels<ExecutionSpace, Scalar> const& panels) {
  kernel.weights = arrays.weights;
  kernel.inputs = from_row(panels.inputs, arrays.strip);
  kernel.errors = panels.errors;
  kernel.input_errors = from_row(panels.input_errors, arrays.strip);
  kernel.stride = layer.num_inputs;
  if (before != nullptr) kernel.derivative = Derivative<Scalar>(*before);
  kernel.levels = panels.levels.weights;
  kernel.num_outputs = layer.num_outputs;
}

/// Launches the backward pass of a strip of a layer, by the kernel of its format. before: as for set_backward(). Does
/// not fence.
template <class ExecutionSpace, class Scalar, class OfLayer>
void launch_backward(ExecutionSpace const& space, OfLayer const& layer,
                     DirectedLayer<ExecutionSpace, Scalar> const& arrays, Activation const* before,
                     BackwardPanels<ExecutionSpace, Scalar> const& panels) {
  auto const by_edges = [&](auto kernel) {
    if (arrays.strip.is_first)
      neuron_sums(space, NeuronSums<ExecutionSpace, Scalar>{panels.errors, panels.levels.bias, layer.num_outputs, 1});
    set_backward(kernel, layer, arrays, before, panels);
    kernel.edges = arrays.edges;
    fused_backward(space, kernel);
  };
  auto const dense = [&](auto kernel) {
    set_backward(kernel, layer, arrays, before, panels);
    kernel.bias_levels = panels.levels.bias;
    kernel.num_inputs = static_cast<int>(arrays.strip.num_rows);
    trained_dense_backward(space, kernel);
  };
  if constexpr (!kOnHost<ExecutionSpace>) {
    auto const in_scratch = [&](auto kernel) {
      set_backward(kernel, layer, arrays, before, panels);
      kernel.edges = arrays.edges;
      kernel.bias_levels = panels.levels.bias;
      scratch_backward(space, kernel);
    };
    if (panels.levels.weights.parts_per_leaf > 1) {
      if (before != nullptr) in_scratch(ScratchBackward<ExecutionSpace, Scalar, true>{});
      if (before == nullptr) in_scratch(ScratchBackward<ExecutionSpace, Scalar, false>{});
      return;
    }
  }
  bool const is_dense = layer.format.has_dense_backward;
  if (is_dense && before != nullptr) dense(TrainedDenseBackward<ExecutionSpace, Scalar, true>{});
  if (is_dense && before == nullptr) dense(TrainedDenseBackward<ExecutionSpace, Scalar, false>{});
  if (!is_dense && before != nullptr) by_edges(FusedBackward<ExecutionSpace, Scalar, true>{});
  if (!is_dense && before == nullptr) by_edges(FusedBackward<ExecutionSpace, Scalar, false>{});
}

/// Launches the sums of a strip's gradients over all leaves: of weights, by edge in training order, to `totals` from
/// `first` on, of biases from first_bias on. is_picked: the levels have a gradient for each place, of which only those
/// at arrays.places are wanted. Does not fence.
template <class ExecutionSpace, class Scalar>
void launch_totals(ExecutionSpace const& space, DirectedLayer<ExecutionSpace, Scalar> const& arrays, bool is_picked,
                   GradientLevels<ExecutionSpace, Scalar> const& levels,
                   DeviceArray<ExecutionSpace, Scalar> const& totals, std::size_t first, std::size_t first_bias) {
  if (is_picked) {
    pick_levels(space, PickLevels<ExecutionSpace, Scalar>{levels.weights, arrays.places, totals, first});
    add_levels(space, AddLevels<ExecutionSpace, Scalar>{levels.bias, totals, first_bias});
  } else {
    add_levels(space, AddLevels<ExecutionSpace, Scalar>{levels.weights, totals, first, levels.bias, first_bias});
  }
}

} // namespace varve
