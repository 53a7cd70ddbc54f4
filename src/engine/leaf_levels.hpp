#pragma once

#include "engine/training_kernels.hpp"

#include <algorithm>
#include <cstddef>

namespace varve {

/// Device memory for partial sums over leaves (TreeLevels), which all strips of layers use one after the other. On
/// GPUs, groups of neighbouring layers share it, and one launch adds up their sums.
template <class Scalar>
class LeafLevels {
public:
  using Levels = GradientLevels<Scalar>;

  LeafLevels() = default;
  /// Allocates memory for every strip of every layer, for series of layers with up to series_sums sums, and for groups
  /// of up to group_layers() layers (at most max_layers), for up to max_leaves leaves.
  template <class Layers>
  LeafLevels(TrainingKernels<Scalar> const& kernels, Layers const& layers, LayerStrips const& strips,
             std::size_t max_leaves, std::size_t series_sums = 0, std::size_t max_layers = 1)
      : kernels_(&kernels) {
    std::size_t of_weights = max_of_series(kernels, max_leaves, series_sums);
    std::size_t of_bias = of_weights;
    for (std::size_t number = 0; number < layers.size(); ++number) {
      for (auto const& strip : strips.of(number, LayerUse::Direction::backward)) {
        for (std::size_t leaves = 1; leaves <= max_leaves; ++leaves) {
          auto const levels = of(layers[number], strip, leaves);
          of_weights = std::max(of_weights, size_of(levels.weights));
          of_bias = std::max(of_bias, size_of(levels.bias));
        }
      }
    }
    group_layers_ = max_group_layers(kernels, max_layers, (of_weights + of_bias) * sizeof(Scalar));
    weights_ = new_numbers<Scalar>(kernels.memory(), "varve::leaf_sums", group_layers_ * of_weights);
    bias_ = new_numbers<Scalar>(kernels.memory(), "varve::leaf_sums", group_layers_ * of_bias);
  }

  /// The most layers of a group.
  std::size_t group_layers() const { return group_layers_; }

  std::size_t bytes() const { return (weights_.size() + bias_.size()) * sizeof(Scalar); }

  /// The levels for the backward pass of a strip over num_leaves leaves.
  Levels of(TrainedShape const& layer, LayerStrip const& strip, std::size_t num_leaves) const {
    bool const is_dense = layer.format.has_dense_backward;
    auto const runs = kernels_->runs_of(strip.num_rows, layer.num_outputs, is_dense, num_leaves);
    std::size_t const gradients = is_dense ? strip.num_rows * layer.num_outputs : strip.num_edges;
    std::size_t const biases = strip.is_first ? layer.num_outputs : 0;
    int const parts = runs.parts_per_leaf;
    return {{weights_, gradients, runs.of_weights, runs.num_leaves * parts, parts},
            {bias_, biases, runs.of_bias, runs.num_leaves * parts, parts}};
  }

  /// The levels for the backward pass of a series of layers over num_leaves leaves, with one run per processor.
  Levels of_series(std::size_t num_edges, std::size_t num_outputs, std::size_t num_leaves) const {
    auto const leaves = static_cast<int>(num_leaves);
    int const per_run = kernels_->leaves_of_series(leaves);
    return {{weights_, num_edges, per_run, leaves}, {bias_, num_outputs, per_run, leaves}};
  }

  /// Upper bound in bytes of the device memory for any strip of up to `size` gradients of a layer of this shape or of
  /// fewer edges, and for up to max_leaves leaves.
  static std::size_t max_bytes(TrainingKernels<Scalar> const& kernels, TrainedShape const& layer, std::size_t size,
                               std::size_t max_leaves) {
    std::size_t const gradients = std::min(layer.num_backward_weights(), size);
    std::size_t max_of_weights = 0;
    std::size_t max_of_bias = 0;
    // Fewer rows give more runs, so rows are tried from 1 on, in steps of an eighth: runs grow by half at most in one.
    for (std::size_t rows = size == kWholeLayers ? layer.num_inputs : 1; rows <= layer.num_inputs;) {
      std::size_t const end = std::min(layer.num_inputs, rows + rows / 8);
      std::size_t const most = std::min(gradients, end * layer.num_outputs);
      for (std::size_t leaves = 1; leaves <= max_leaves; ++leaves) {
        for (std::size_t const tried : {rows, end}) {
          auto const runs = kernels.runs_of(tried, layer.num_outputs, layer.format.has_dense_backward, leaves);
          int const halves = runs.num_leaves * runs.parts_per_leaf;
          max_of_weights = std::max(max_of_weights, size_of_levels(most, halves, runs.of_weights));
          max_of_bias = std::max(max_of_bias, size_of_levels(layer.num_outputs, halves, runs.of_bias));
        }
      }
      rows = end + 1;
    }
    return (max_of_weights + max_of_bias) * sizeof(Scalar);
  }

  /// Upper bound in bytes of the device memory for groups of up to max_layers layers, whose levels have up to
  /// bytes_of_layer bytes each.
  static std::size_t max_bytes_of_groups(TrainingKernels<Scalar> const& kernels, std::size_t max_layers,
                                         std::size_t bytes_of_layer) {
    return std::max(bytes_of_layer, std::min(kernels.traits().group_bytes, max_layers * bytes_of_layer));
  }

  /// Upper bound in bytes of the additional device memory for series of layers with up to series_sums sums.
  static std::size_t max_bytes_of_series(TrainingKernels<Scalar> const& kernels, std::size_t series_sums,
                                         std::size_t max_leaves) {
    return 2 * max_of_series(kernels, max_leaves, series_sums) * sizeof(Scalar);
  }

private:
  /// The most layers of a group, at most max_layers, whose levels have up to bytes_of_layer bytes each.
  static std::size_t max_group_layers(TrainingKernels<Scalar> const& kernels, std::size_t max_layers,
                                      std::size_t bytes_of_layer) {
    return std::max<std::size_t>(
        1, std::min(max_layers, kernels.traits().group_bytes / std::max<std::size_t>(1, bytes_of_layer)));
  }

  /// Number of elements for the sums of a series and up to max_leaves leaves.
  static std::size_t max_of_series(TrainingKernels<Scalar> const& kernels, std::size_t max_leaves,
                                   std::size_t series_sums) {
    std::size_t most = 0;
    for (int leaves = 1; series_sums > 0 && leaves <= static_cast<int>(max_leaves); ++leaves)
      most = std::max(most, size_of_levels(series_sums, leaves, kernels.leaves_of_series(leaves)));
    return most;
  }

  static std::size_t size_of(LevelsOnDevice<Scalar> const& levels) {
    return size_of_levels(levels.num_sums, levels.num_leaves, levels.leaves_per_run);
  }

  TrainingKernels<Scalar> const* kernels_ = nullptr;
  DeviceNumbers<Scalar> weights_, bias_;
  std::size_t group_layers_ = 1;
};

} // namespace varve
