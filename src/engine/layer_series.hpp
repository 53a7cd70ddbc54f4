#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace varve {

/// Properties of a layer that decide whether it can be part of a series.
struct SeriesLayer {
  std::size_t num_inputs = 0, num_outputs = 0, num_edges = 0;
  std::size_t first_weight_sum = 0, first_bias_sum = 0; ///< indices of the sums of its gradients
  bool has_dense_forward = false, has_dense_backward = false;

  std::size_t num_sums() const { return num_edges + num_outputs; }
};

/// Decides which neighbouring layers a host computes as one series (kernels/fused_backward.hpp), so that threads are
/// started once for all of them: a layer of few edges takes less time than a launch. A series has at least two layers,
/// all of one width, each with as many inputs as outputs, and together at most `max_sums` edges and neurons.
class SeriesRule {
public:
  /// max_sums: 0 if the device computes no series. launch_edges: edges that take as long as a launch, for a leaf.
  SeriesRule(std::vector<SeriesLayer> layers, std::size_t max_sums, std::size_t launch_edges, std::size_t processors)
      : layers_(std::move(layers)), max_sums_(max_sums), launch_edges_(launch_edges), processors_(processors) {}

  /// The end of the forward series that begins at layer `first`, at most `last`; `first` if there is none.
  std::size_t forward_end(std::size_t first, std::size_t last, std::size_t num_leaves) const;

  /// The first layer, at least `first`, of the backward series whose last layer is `last`; last + 1 if there is none.
  /// The sums of its gradients are adjacent in memory.
  std::size_t backward_begin(std::size_t first, std::size_t last, std::size_t num_leaves) const;

  /// The most sums of gradients of a series; 0 if no layers form one.
  std::size_t max_sums() const;

  /// The number of layers in forward series if all activations are kept.
  std::size_t num_layers_in_series(std::size_t num_leaves) const;

private:
  bool suits(SeriesLayer const& layer, std::size_t num_leaves) const;

  std::vector<SeriesLayer> layers_;
  std::size_t max_sums_, launch_edges_, processors_;
};

} // namespace varve
