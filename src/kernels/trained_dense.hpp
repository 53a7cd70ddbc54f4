#pragma once

#include "kernels/derivative.hpp"
#include "kernels/leaf_gradient.hpp"
#include "kernels/leaf_product.hpp"
#include "kernels/leaf_sums.hpp"

#include <cstddef>

namespace varve {

/// One layer of a mini-batch from a dense matrix, whose weights are 0 where there is no edge:
///   outputs(j, s) = finish(fma-chain over all inputs i, ascending, of weight(j, i) * inputs(i, s), bias(j))
/// Bitwise equal to TrainedForward: activations are finite, so a weight 0 changes at most the sign of a zero sum, which
/// changes no output (formats/dense_blocks.hpp).
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct TrainedDenseForward {
  ConstDeviceArray<ExecutionSpace, Scalar> weights; ///< [output][input]
  ConstDeviceArray<ExecutionSpace, double> bias;    ///< [output]
  Bounds<Scalar> bounds;
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> inputs;
  TrainingPanel<ExecutionSpace, Scalar, Links> outputs; ///< result
  int num_inputs;
  int num_outputs;
  int stride; ///< lines of a leaf in `outputs`: num_outputs, or more if the outputs are a part of a layer's
};

/// Backward pass of one layer from a dense matrix, whose weights are 0 where there is no edge. Computes the same as
/// FusedBackward, but gradients for all places (i, j):
///
///   input_errors(i, s) = act'(inputs(i, s)) * fma-chain over all j, ascending, of weight(j, i) * errors(j, s)
///
///   gradient(j, i) = sum over s of inputs(i, s) * errors(j, s), in the order of network/leaf.hpp, into `levels`
///
/// At edges it is bitwise equal to FusedBackward: with finite errors, a weight 0 changes at most the sign of a zero
/// sum, and the sign of a zero error changes no gradient, because gradients are never -0. (With both kernels, errors
/// that are not finite end the training.) Gradients of biases are added to `bias_levels`.
template <class ExecutionSpace, class Scalar, bool HasInputErrors, int Links = kChainLength>
struct TrainedDenseBackward {
  ConstDeviceArray<ExecutionSpace, Scalar> weights;          ///< [input][output]
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> inputs;  ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> errors;  ///< errors of this layer's outputs
  TrainingPanel<ExecutionSpace, Scalar, Links> input_errors; ///< result: errors of the outputs of the layer before
  Derivative<Scalar> derivative;                  ///< derivative of the activation function of the layer before
  TreeLevels<ExecutionSpace, Scalar> levels;      ///< result: gradients, [input][output]
  TreeLevels<ExecutionSpace, Scalar> bias_levels; ///< result: gradients of biases; empty if not wanted
  int num_inputs;
  int num_outputs;
  int stride; ///< lines of a leaf in `inputs` and `input_errors`: num_inputs, or more for a part of the inputs
};

/// Turns the sums of a leaf's product into activations and stores them.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct FinishActivations {
  ConstDeviceArray<ExecutionSpace, double> bias; ///< [output]
  Bounds<Scalar> bounds;
  TrainingPanel<ExecutionSpace, Scalar, Links> outputs;
  int stride; ///< lines of a leaf in `outputs`

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>>& sum, int leaf,
                                              int row, int lane) const {
    double const own_bias = bias(row);
    for (auto& pack : sum.pack) finish_with_curve(pack, own_bias, bounds);
    sum.store(
        outputs(static_cast<std::size_t>(leaf) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(row)),
        lane);
  }
};

/// Turns the sums of a leaf's product into errors of a layer's inputs and stores them.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct FinishInputErrors {
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> inputs; ///< activations of the layer before
  TrainingPanel<ExecutionSpace, Scalar, Links> input_errors;
  Derivative<Scalar> derivative;
  int stride; ///< lines of a leaf in both panels

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>>& sum, int leaf,
                                              int row, int lane) const {
    auto const line = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(row);
    LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>> x;
    x.load(inputs(line), lane);
    VARVE_UNROLL
    for (int k = 0; k < TrainingTile<ExecutionSpace, Scalar, Links>::packs_per_lane; ++k)
      derivative.apply(sum.pack[k], x.pack[k]);
    sum.store(input_errors(line), lane);
  }
};

/// Launches the product of a dense matrix with the lines of each leaf by the kernel of the execution space. Does not
/// fence.
template <int Links, class ExecutionSpace, class Scalar, class Finish>
void leaf_product(ExecutionSpace const& space, ConstDeviceArray<ExecutionSpace, Scalar> const& matrix,
                  ConstTrainingPanel<ExecutionSpace, Scalar, Links> const& lines, int num_rows, int depth,
                  int num_leaves, Finish const& finish) {
  if constexpr (kOnHost<ExecutionSpace>) {
    leaf_product_on_host<ExecutionSpace, Scalar, Links>(space, matrix, lines, num_rows, depth, num_leaves, finish);
  } else {
    leaf_product_on_gpu(space, matrix, lines, num_rows, depth, num_leaves, finish);
  }
}

/// Launches a TrainedDenseForward for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar, int Links>
void trained_dense_forward(ExecutionSpace const& space, TrainedDenseForward<ExecutionSpace, Scalar, Links> const& given,
                           int num_leaves) {
  leaf_product<Links>(
      space, given.weights, given.inputs, given.num_outputs, given.num_inputs, num_leaves,
      FinishActivations<ExecutionSpace, Scalar, Links>{given.bias, given.bounds, given.outputs, given.stride});
}

/// Launches a TrainedDenseBackward. Its levels must have runs of leaves_per_run() of the tuning; on GPUs, `levels` and
/// `bias_levels` must have the same runs, of leaves_per_dense_run(). Does not fence.
template <class ExecutionSpace, class Scalar, bool HasInputErrors, int Links>
void trained_dense_backward(ExecutionSpace const& space,
                            TrainedDenseBackward<ExecutionSpace, Scalar, HasInputErrors, Links> const& given) {
  if constexpr (kOnHost<ExecutionSpace>) {
    if (given.bias_levels.num_sums != 0)
      neuron_sums(space,
                  NeuronSums<ExecutionSpace, Scalar, Links>{given.errors, given.bias_levels, given.num_outputs, 1});
    leaf_gradient_on_host(space, LeafGradientOnHost<ExecutionSpace, Scalar, Links>{given.inputs, given.errors,
                                                                                   given.levels, given.num_inputs,
                                                                                   given.num_outputs, given.stride, 1});
  } else {
    leaf_gradient_on_gpu(space, LeafGradientOnGpu<ExecutionSpace, Scalar>{given.inputs, given.errors, given.levels,
                                                                          given.bias_levels, given.num_inputs,
                                                                          given.num_outputs, given.stride});
  }
  if constexpr (HasInputErrors) {
    leaf_product<Links>(space, given.weights, given.errors, given.num_inputs, given.num_outputs,
                        given.levels.num_leaves,
                        FinishInputErrors<ExecutionSpace, Scalar, Links>{given.inputs, given.input_errors,
                                                                         given.derivative, given.stride});
  }
}

} // namespace varve
