#pragma once

#include "kernels/fused_backward.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/trained_forward.hpp"

#include <string>
#include <vector>

namespace varve {

/// The kernels of a series: neighbouring layers with the same number of inputs and outputs. The vector must outlive the
/// list.
template <class Kernel>
using KernelList = Kokkos::View<Kernel const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
template <class Kernel>
KernelList<Kernel> list_of(std::vector<Kernel> const& kernels) {
  return KernelList<Kernel>(kernels.data(), kernels.size());
}

/// The forward pass of a series in one launch on a host: a thread computes all layers for one leaf, one after the
/// other. In all panels a leaf's lines have the same indices, so threads at different layers never conflict. Index:
/// leaf. Per edge and leaf it reads one line of inputs (256 bytes) for one fma per sample, as TrainedForward does, but
/// from the L2, where a leaf's lines of two panels and the weights of the series stay.
template <class ExecutionSpace, class Scalar>
struct SeriesForward {
  using Layer = TrainedForward<ExecutionSpace, Scalar>;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;

  KernelList<Layer> layers; ///< in the order of the network

  KOKKOS_FUNCTION void operator()(int leaf) const {
    for (std::size_t number = 0; number < layers.size(); ++number) {
      auto const& layer = layers(number);
      for (int row = 0; row < layer.edges.num_rows; ++row) layer.forward_row(leaf, row, 0);
    }
  }
};

/// Launches SeriesForward for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar>
void series_forward(ExecutionSpace const& space, SeriesForward<ExecutionSpace, Scalar> const& kernel, int num_leaves) {
  using Policy = typename SeriesForward<ExecutionSpace, Scalar>::Policy;
  Kokkos::parallel_for("varve::series_forward", Policy(space, 0, num_leaves).set_chunk_size(1), kernel);
}

/// Arguments of the backward pass for one layer of a series. Both parts have the same runs of leaves.
template <class ExecutionSpace, class Scalar>
struct SeriesBackwardLayer {
  FusedBackward<ExecutionSpace, Scalar, true> edges;
  NeuronSums<ExecutionSpace, Scalar> bias;
};

/// The backward pass of a series in one launch on a host: a thread computes a run of leaves, each through all layers.
/// Index: run of leaves. Moves and computes per edge the same as FusedBackward.
template <class ExecutionSpace, class Scalar>
struct SeriesBackward {
  using Layer = SeriesBackwardLayer<ExecutionSpace, Scalar>;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;

  KernelList<Layer> layers; ///< the last one of the network first
  int leaves_per_run;
  int num_leaves;

  KOKKOS_FUNCTION void operator()(int run) const {
    int const first = run * leaves_per_run;
    int const last = first + leaves_per_run < num_leaves ? first + leaves_per_run : num_leaves;
    for (int leaf = first; leaf < last; ++leaf)
      for (std::size_t number = 0; number < layers.size(); ++number) backward_leaf(layers(number), run, leaf);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static void backward_leaf(Layer const& layer, int run, int leaf) {
    for (int neuron = 0; neuron < layer.bias.num_neurons; neuron += NeuronSums<ExecutionSpace, Scalar>::Sums::count)
      layer.bias.add_group(run, leaf, neuron, 0);
    for (int row = 0; row < layer.edges.edges.num_rows; ++row) layer.edges.backward_row(run, leaf, row, 0);
  }
};

/// Launches SeriesBackward. Does not fence.
template <class ExecutionSpace, class Scalar>
void series_backward(ExecutionSpace const& space, SeriesBackward<ExecutionSpace, Scalar> const& kernel) {
  using Policy = typename SeriesBackward<ExecutionSpace, Scalar>::Policy;
  int const num_runs = (kernel.num_leaves + kernel.leaves_per_run - 1) / kernel.leaves_per_run;
  Kokkos::parallel_for("varve::series_backward", Policy(space, 0, num_runs).set_chunk_size(1), kernel);
}

} // namespace varve
