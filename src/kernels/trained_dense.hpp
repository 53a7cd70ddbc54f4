#pragma once

#include "kernels/fused_backward.hpp"
#include "kernels/leaf_gradient.hpp"
#include "kernels/leaf_product.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/trained_forward.hpp"

namespace varve {

/// Turns the sums of a leaf's product into activations and stores them.
template <class ExecutionSpace, class Scalar, int Links>
struct FinishActivations {
  TrainedForward<ExecutionSpace, Scalar, Links> given;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>>& sum, int leaf,
                                              int row, int lane) const {
    given.finish_row(sum, leaf, row, lane);
  }
};

/// Turns the sums of a leaf's product into errors of a layer's inputs and stores them.
template <class ExecutionSpace, class Scalar, int Links>
struct FinishInputErrors {
  FusedBackward<ExecutionSpace, Scalar, true, Links> given;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>>& sum, int leaf,
                                              int row, int lane) const {
    auto const line = line_of(leaf, given.stride, row);
    LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>> x;
    x.load(given.inputs(line), lane);
    given.store_errors(sum, x, line, lane);
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

/// One layer of a mini-batch from a dense matrix, whose weights are 0 where there is no edge:
///   outputs(j, s) = finish(fma-chain over all inputs i, ascending, of weight(j, i) * inputs(i, s), bias(j))
/// given.weights: [output][input], for num_outputs outputs; given.edges are not read. Bitwise equal to TrainedForward:
/// activations are finite, so a weight 0 changes at most the sign of a zero sum, which changes no output
/// (formats/dense_blocks.hpp). Launches the product for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar, int Links>
void trained_dense_forward(ExecutionSpace const& space, TrainedForward<ExecutionSpace, Scalar, Links> const& given,
                           int num_outputs, int num_leaves) {
  leaf_product<Links>(space, given.weights, given.inputs, num_outputs, given.num_inputs, num_leaves,
                      FinishActivations<ExecutionSpace, Scalar, Links>{given});
}

/// Backward pass of one layer from a dense matrix, whose weights are 0 where there is no edge. Computes the same as
/// FusedBackward, but gradients for all places (i, j):
///
///   input_errors(i, s) = act'(inputs(i, s)) * fma-chain over all j, ascending, of weight(j, i) * errors(j, s)
///
///   gradient(j, i) = sum over s of inputs(i, s) * errors(j, s), in the order of network/leaf.hpp, into `levels`
///
/// given.weights and given.levels: [input][output], for num_inputs inputs; given.edges are not read. At edges it is
/// bitwise equal to FusedBackward: with finite errors, a weight 0 changes at most the sign of a zero sum, and the sign
/// of a zero error changes no gradient, because gradients are never -0. (With both kernels, errors that are not finite
/// end the training.) Levels must have runs of leaves_per_run() of the tuning; on GPUs, `levels` and `bias_levels` must
/// have the same runs, of leaves_per_dense_run(). Does not fence.
template <class ExecutionSpace, class Scalar, bool HasInputErrors, int Links>
void trained_dense_backward(ExecutionSpace const& space,
                            FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links> const& given, int num_inputs) {
  if constexpr (kOnHost<ExecutionSpace>) {
    if (given.bias_levels.num_sums != 0)
      neuron_sums(space, NeuronSums<ExecutionSpace, Scalar, Links>{given.errors, given.bias_levels, given.num_outputs});
    leaf_gradient_on_host(space, LeafGradientOnHost<ExecutionSpace, Scalar, Links>{given.inputs, given.errors,
                                                                                   given.levels, num_inputs,
                                                                                   given.num_outputs, given.stride, 1});
  } else {
    leaf_gradient_on_gpu(space, LeafGradientOnGpu<ExecutionSpace, Scalar>{given.inputs, given.errors, given.levels,
                                                                          given.bias_levels, num_inputs,
                                                                          given.num_outputs, given.stride});
  }
  if constexpr (HasInputErrors) {
    leaf_product<Links>(space, given.weights, given.errors, num_inputs, given.num_outputs, given.levels.num_leaves,
                        FinishInputErrors<ExecutionSpace, Scalar, Links>{given});
  }
}

} // namespace varve
