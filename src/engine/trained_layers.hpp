#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// Storage of a layer in training: its edges, or dense matrices with weights 0 where there is no edge. The choice
/// changes no bit of any weight.
struct TrainedFormat {
  bool has_dense_forward = false;  ///< by output, for the forward pass
  bool has_dense_backward = false; ///< by input, for errors and gradients

  bool operator==(TrainedFormat const&) const = default;
};

/// The shape of a layer in training.
struct TrainedShape {
  std::size_t num_inputs = 0, num_outputs = 0, num_edges = 0;
  std::size_t first_weight_sum = 0, first_bias_sum = 0; ///< indices of the sums of its gradients
  TrainedFormat format = {};

  std::size_t num_places() const { return num_inputs * num_outputs; }
  std::size_t num_sums() const { return num_edges + num_outputs; }
  /// Weights that are stored by output and by input: one per edge or, if dense, per place.
  std::size_t num_forward_weights() const { return format.has_dense_forward ? num_places() : num_edges; }
  std::size_t num_backward_weights() const { return format.has_dense_backward ? num_places() : num_edges; }
  /// The dense matrix by input has places without an edge.
  bool has_gaps_backward() const { return format.has_dense_backward && num_places() > num_edges; }
  /// The sums of the gradients of `next` follow those of this layer.
  bool is_before(TrainedShape const& next) const {
    return first_weight_sum + num_edges == next.first_weight_sum && first_bias_sum + num_outputs == next.first_bias_sum;
  }
};

/// The widths of the panels that are shared if every `keep_every`-th panel of these widths is kept: the i-th one holds
/// every panel that is i + 1 after a kept one.
std::vector<std::size_t> widths_between(std::vector<std::size_t> const& widths, std::size_t keep_every);

/// The shapes of a network's layers if the sums of all gradients of weights are adjacent, and those of all biases.
std::vector<TrainedShape> shapes_of(Network const& network, std::vector<TrainedFormat> const& formats);

/// A layer and the direction in which kernels use it: forward by output, backward by input.
struct LayerUse {
  enum class Direction { forward, backward };
  std::size_t layer = 0;
  Direction direction = Direction::forward;
  std::size_t strip = 0; ///< the strip of the layer, in the order of use

  bool operator==(LayerUse const&) const = default;
};

/// Neighbouring rows of a layer with all their edges: outputs in the forward direction, inputs in the backward one. A
/// layer that is too large for the device is streamed strip by strip. Every chain of fma is within one row, so strips
/// change no bit.
struct LayerStrip {
  std::size_t first_row = 0, num_rows = 0;
  std::size_t first_edge = 0, num_edges = 0; ///< edges in the direction's order
  bool is_first = true;                      ///< the strip is used first; backward, it also has the gradients of biases

  bool operator==(LayerStrip const&) const = default;
};

inline LayerStrip whole_layer(TrainedShape const& layer, LayerUse::Direction direction) {
  bool const is_forward = direction == LayerUse::Direction::forward;
  return {0, is_forward ? layer.num_outputs : layer.num_inputs, 0, layer.num_edges};
}

/// The size of strips if no layer is cut.
inline constexpr std::size_t kWholeLayers = std::numeric_limits<std::size_t>::max();

/// The least size of strips for a layer of this width: a strip then has room for any row.
constexpr std::size_t strip_size_of_row(std::size_t width) { return width + 1; }

/// Cuts rows into strips with at most `size` weights and rows together (but at least one row). row_pointers: the first
/// edge of each row, then the number of edges; dense_width: weights of each row if the layer is stored as a dense
/// matrix, 0 if it is stored by edges. Returns the strips in the order of use: forward by ascending rows, backward by
/// descending rows, because the optimizer needs the last gradients first.
std::vector<LayerStrip> cut_rows(std::span<std::uint32_t const> row_pointers, std::size_t dense_width, std::size_t size,
                                 LayerUse::Direction direction);

/// The strips of all layers of a network.
class LayerStrips {
public:
  /// layers: TrainedWeights::layers(), whose patterns are in host memory unless `size` is kWholeLayers.
  template <class Layers>
  LayerStrips(Layers const& layers, std::size_t size) {
    using enum LayerUse::Direction;
    for (auto const& layer : layers) {
      if (size == kWholeLayers) {
        forward_.push_back({whole_layer(layer, forward)});
        backward_.push_back({whole_layer(layer, backward)});
        continue;
      }
      auto const& by_output = layer.edges.by_output.row_pointers;
      auto const& by_input = layer.edges.by_input.row_pointers;
      forward_.push_back(cut_rows({by_output.data(), by_output.size()},
                                  layer.format.has_dense_forward ? layer.num_inputs : 0, size, forward));
      backward_.push_back(cut_rows({by_input.data(), by_input.size()},
                                   layer.format.has_dense_backward ? layer.num_outputs : 0, size, backward));
    }
  }

  std::vector<LayerStrip> const& of(std::size_t layer, LayerUse::Direction direction) const {
    return direction == LayerUse::Direction::forward ? forward_[layer] : backward_[layer];
  }
  LayerStrip const& of(LayerUse const& use) const { return of(use.layer, use.direction)[use.strip]; }

private:
  std::vector<std::vector<LayerStrip>> forward_, backward_; ///< [layer]
};

/// Decides which neighbouring layers a host computes as one series (kernels/fused_backward.hpp), so that threads are
/// started once for all of them: a layer of few edges takes less time than a launch. A series has at least two layers,
/// all of one width, each with as many inputs as outputs, and together at most `max_sums` edges and neurons.
class SeriesRule {
public:
  /// max_sums: 0 if the device computes no series. launch_edges: edges that take as long as a launch, for a leaf.
  SeriesRule(std::vector<TrainedShape> layers, std::size_t max_sums, std::size_t launch_edges, std::size_t processors)
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
  bool suits(TrainedShape const& layer, std::size_t num_leaves) const;

  std::vector<TrainedShape> layers_;
  std::size_t max_sums_, launch_edges_, processors_;
};

} // namespace varve
