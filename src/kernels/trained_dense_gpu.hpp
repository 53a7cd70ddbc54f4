#pragma once

#include "kernels/leaf_gradient_gpu.hpp"
#include "kernels/leaf_product_gpu.hpp"
#include "kernels/trained_dense_backward.hpp"
#include "kernels/trained_dense_forward.hpp"

#include <cstddef>

namespace varve {

/// Ends the sums of LeafProductOnGpu as activations.
template <class ExecutionSpace, class Scalar>
struct FinishActivations {
  ConstDeviceArray<ExecutionSpace, double> bias; ///< by output
  Bounds<Scalar> bounds;
  TrainingPanel<ExecutionSpace, Scalar> outputs;
  int stride; ///< lines of a leaf in `outputs`

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar>>& sum, int leaf, int row,
                                              int lane) const {
    double const own_bias = bias(row);
    for (auto& pack : sum.pack) finish_with_curve(pack, own_bias, bounds);
    sum.store(
        outputs(static_cast<std::size_t>(leaf) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(row)),
        lane);
  }
};

/// Ends the sums of LeafProductOnGpu as errors of a layer's inputs.
template <class ExecutionSpace, class Scalar>
struct FinishInputErrors {
  ConstTrainingPanel<ExecutionSpace, Scalar> inputs; ///< activations of the layer before
  TrainingPanel<ExecutionSpace, Scalar> input_errors;
  Derivative<Scalar> derivative;
  int stride; ///< lines of a leaf in both

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar>>& sum, int leaf, int row,
                                              int lane) const {
    auto const line = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(row);
    LanePacks<TrainingTile<ExecutionSpace, Scalar>> x;
    x.load(inputs(line), lane);
    VARVE_UNROLL
    for (int k = 0; k < TrainingTile<ExecutionSpace, Scalar>::packs_per_lane; ++k)
      derivative.apply(sum.pack[k], x.pack[k]);
    sum.store(input_errors(line), lane);
  }
};

/// Launches what TrainedDenseForward computes for num_leaves leaves, by the kernels of the execution space. Does not
/// fence.
template <class ExecutionSpace, class Scalar>
void trained_dense_forward(ExecutionSpace const& space, TrainedDenseForward<ExecutionSpace, Scalar> const& given,
                           int num_leaves) {
  if constexpr (kOnHost<ExecutionSpace>) {
    trained_dense_forward_on_host(space, given, num_leaves);
  } else {
    leaf_product_on_gpu(
        space, given.weights, given.inputs, given.num_outputs, given.num_inputs, num_leaves,
        FinishActivations<ExecutionSpace, Scalar>{given.bias, given.bounds, given.outputs, given.stride});
  }
}

/// Launches what TrainedDenseBackward computes, by the kernels of the execution space. On GPUs `levels` and
/// `bias_levels` must have the same runs. Does not fence.
template <class ExecutionSpace, class Scalar, bool HasInputErrors>
void trained_dense_backward(ExecutionSpace const& space,
                            TrainedDenseBackward<ExecutionSpace, Scalar, HasInputErrors> const& given) {
  if constexpr (kOnHost<ExecutionSpace>) {
    trained_dense_backward_on_host(space, given);
  } else {
    leaf_gradient_on_gpu(space, LeafGradientOnGpu<ExecutionSpace, Scalar>{given.inputs, given.errors, given.levels,
                                                                          given.bias_levels, given.num_inputs,
                                                                          given.num_outputs, given.stride});
    if constexpr (HasInputErrors) {
      leaf_product_on_gpu(
          space, given.weights, given.errors, given.num_inputs, given.num_outputs, given.levels.num_leaves,
          FinishInputErrors<ExecutionSpace, Scalar>{given.inputs, given.input_errors, given.derivative, given.stride});
    }
  }
}

} // namespace varve
