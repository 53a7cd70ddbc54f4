#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace varve {

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
  /// layers: TrainedWeights::layers(), in host memory unless `size` is kWholeLayers.
  template <class Layers>
  LayerStrips(Layers const& layers, std::size_t size) {
    using enum LayerUse::Direction;
    for (auto const& layer : layers) {
      auto const inputs = static_cast<std::size_t>(layer.num_inputs);
      auto const outputs = static_cast<std::size_t>(layer.num_outputs);
      if (size == kWholeLayers) {
        forward_.push_back({LayerStrip{0, outputs, 0, layer.edges.num_edges()}});
        backward_.push_back({LayerStrip{0, inputs, 0, layer.edges.num_edges()}});
        continue;
      }
      auto const& by_output = layer.edges.by_output.row_pointers;
      auto const& by_input = layer.edges.by_input.row_pointers;
      forward_.push_back(
          cut_rows({by_output.data(), by_output.size()}, layer.format.has_dense_forward ? inputs : 0, size, forward));
      backward_.push_back(
          cut_rows({by_input.data(), by_input.size()}, layer.format.has_dense_backward ? outputs : 0, size, backward));
    }
  }

  std::vector<LayerStrip> const& of(std::size_t layer, LayerUse::Direction direction) const {
    return direction == LayerUse::Direction::forward ? forward_[layer] : backward_[layer];
  }
  LayerStrip const& of(LayerUse const& use) const { return of(use.layer, use.direction)[use.strip]; }

private:
  std::vector<std::vector<LayerStrip>> forward_, backward_; ///< [layer]
};

} // namespace varve
