#pragma once

#include "engine/trained_layers.hpp"
#include "engine/trained_weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace varve {

/// Streams layers, whole or in strips, from host memory through two buffers on the device: while kernels use the strip
/// in one buffer, the next strip is copied to the other. On GPUs copies come from pinned memory: weights directly, the
/// pattern, whose indices the host shifts for a strip, from copies.
template <class Scalar>
class LayerStream {
public:
  using Weights = TrainedWeights<Scalar>;

  /// `host`: the kernels of the weights' space. All must outlive this object. Strips have at most strip_size weights
  /// and rows. The weights may change, but no layer may get more edges or neurons.
  LayerStream(DeviceMemory const& memory, TrainingKernels<Scalar> const& host, Weights const& weights,
              LayerStrips const& strips, std::size_t strip_size)
      : memory_(memory),
        host_(host),
        weights_(&weights),
        strips_(&strips),
        copies_(memory.new_stream()),
        on_host_(host.memory().default_stream()) {
    Sizes const sizes(weights.layers(), strip_size);
    for (auto& buffer : buffers_) buffer = Buffer(memory, sizes);
    gradients_ = new_numbers<Scalar>(memory, "varve::streamed_gradients", sizes.gradients);
  }

  /// Device memory of the buffers for such layers and strips of strip_size, in bytes.
  static std::size_t bytes_for(std::vector<TrainedShape> const& layers, std::size_t strip_size) {
    Sizes const sizes(layers, strip_size);
    return 2 * ((sizes.rows + sizes.places) * sizeof(std::uint32_t) + sizes.edges * sizeof(NeuronIndex) +
                sizes.weights * sizeof(Scalar) + sizes.outputs * sizeof(double)) +
           sizes.gradients * sizeof(Scalar);
  }

  /// Room on the device for the gradients of a strip: those of its weights, then those of all biases.
  DeviceNumbers<Scalar> const& gradients() const { return gradients_; }

  /// Returns a strip that kernels launched next on the stream may use until the next call. Waits for all kernels
  /// launched before.
  DirectedLayer<Scalar> acquire(Stream const& stream, LayerUse const& use) {
    stream.fence("varve: the strip before is done");
    if (ahead_ != use) load(use);
    copies_->fence("varve: a strip is on the device");
    ahead_.reset();
    current_ = 1 - current_;
    auto const& buffer = buffers_[current_];
    return {strips_->of(use), buffer.used_edges, buffer.used_weights, buffer.used_bias, buffer.used_places};
  }

  /// Starts to copy the strip that will be acquired next. Call after launching the kernels of the present one. The
  /// strip must not change until it is acquired or forgotten.
  void prefetch(LayerUse const& use) {
    load(use);
    ahead_ = use;
  }

  /// Waits for a strip that is being prefetched and forgets it. Call it when weights have changed or will change.
  void forget() {
    copies_->fence("varve: no weights are copied");
    ahead_.reset();
  }

private:
  /// The sizes of the largest arrays of all strips.
  struct Sizes {
    std::size_t rows = 0, edges = 0, weights = 0, outputs = 0, places = 0, gradients = 0;

    template <class Layers>
    Sizes(Layers const& layers, std::size_t strip) { ///< strip: weights and rows
      auto const grow = [](std::size_t& size, std::size_t least) { size = std::max(size, least); };
      for (TrainedShape const& layer : layers) {
        std::size_t const of_edges = std::min(layer.num_edges, strip);
        grow(rows, std::min(std::max(layer.num_inputs, layer.num_outputs), strip) + 1);
        grow(edges, of_edges);
        grow(weights, std::min(std::max(layer.num_forward_weights(), layer.num_backward_weights()), strip));
        grow(outputs, std::min(layer.num_outputs, strip));
        if (layer.has_gaps_backward()) grow(places, of_edges);
        grow(gradients, of_edges + layer.num_outputs);
      }
    }
  };

  /// An array on the device and, on GPUs, the pinned memory from which it is copied.
  template <class Number>
  struct Piece {
    DeviceNumbers<Number> on_device;
    DeviceNumbers<Number> pinned; ///< empty on CPUs, and if the numbers themselves are in pinned memory

    Piece() = default;
    Piece(DeviceMemory const& memory, std::string const& label, std::size_t size, bool are_pinned = false)
        : on_device(new_numbers<Number>(memory, label, size)) {
      if (!memory.is_host() && !are_pinned)
        pinned = numbers_in<Number>(memory.allocate_on_host("varve::pinned_layer", size * sizeof(Number)));
    }
  };

  struct Buffer {
    Piece<std::uint32_t> rows;
    Piece<NeuronIndex> neurons;
    Piece<Scalar> weights;
    Piece<double> bias;
    Piece<std::uint32_t> places;
    // the parts that the present strip uses
    RowsOnDevice used_edges;
    DeviceNumbers<Scalar const> used_weights;
    DeviceNumbers<double const> used_bias;
    DeviceNumbers<std::uint32_t const> used_places;

    Buffer() = default;
    Buffer(DeviceMemory const& memory, Sizes const& sizes)
        : rows(memory, "varve::streamed_layer", sizes.rows),
          neurons(memory, "varve::streamed_layer", sizes.edges),
          weights(memory, "varve::streamed_weights", sizes.weights, true),
          bias(memory, "varve::streamed_layer", sizes.outputs),
          places(memory, "varve::streamed_layer", sizes.places) {}
  };

  /// Copies a strip to the buffer that no kernel uses.
  void load(LayerUse const& use) {
    copies_->fence("varve: the copy before is done");
    auto const& layer = weights_->layers()[use.layer];
    auto const& strip = strips_->of(use);
    bool const is_forward = use.direction == LayerUse::Direction::forward;
    bool const is_dense = is_forward ? layer.format.has_dense_forward : layer.format.has_dense_backward;
    std::size_t const width = is_forward ? layer.num_inputs : layer.num_outputs;
    auto& buffer = buffers_[1 - current_];
    if (!is_dense) {
      auto const& edges = is_forward ? layer.edges.by_output : layer.edges.by_input;
      buffer.used_edges.num_rows = static_cast<int>(strip.num_rows);
      buffer.used_edges.row_pointers =
          put(buffer.rows, edges.row_pointers, strip.first_row, strip.num_rows + 1, strip.first_edge);
      buffer.used_edges.neurons = put(buffer.neurons, edges.neurons, strip.first_edge, strip.num_edges);
    }
    auto const& weights = is_forward ? layer.by_output : layer.backward_weights();
    buffer.used_weights = is_dense ? put(buffer.weights, weights, strip.first_row * width, strip.num_rows * width)
                                   : put(buffer.weights, weights, strip.first_edge, strip.num_edges);
    if (is_forward) {
      buffer.used_bias = put(buffer.bias, layer.bias, strip.first_row, strip.num_rows);
    } else if (layer.dense_places.size() == 0) {
      buffer.used_places = {};
    } else {
      buffer.used_places =
          put(buffer.places, layer.dense_places, strip.first_edge, strip.num_edges, strip.first_row * width);
    }
  }

  /// Starts to copy `count` numbers from `first` on, each minus `shift`, to the piece.
  template <class Number>
  DeviceNumbers<Number const> put(Piece<Number> const& piece, DeviceNumbers<Number const> const& all, std::size_t first,
                                  std::size_t count, std::size_t shift = 0) const {
    auto const numbers = all.part(first, first + count);
    auto const target = piece.on_device.part(0, count);
    auto const subtract = [&](DeviceNumbers<Number> const& copied) {
      if constexpr (std::is_same_v<Number, std::uint32_t>) {
        if (shift != 0) host_.subtract(*on_host_, copied, static_cast<std::uint32_t>(shift));
      }
    };
    if (memory_.is_host()) {
      copies_->copy_on_device(target.data(), numbers.data(), numbers.num_bytes());
      subtract(target);
      return target;
    }
    bool const are_pinned = piece.pinned.data() == nullptr;
    auto const pinned = are_pinned ? numbers : piece.pinned.part(0, count);
    if (!are_pinned) {
      on_host_->copy_on_device(piece.pinned.data(), numbers.data(), numbers.num_bytes());
      subtract(piece.pinned.part(0, count));
      on_host_->fence("varve: a strip is in pinned memory");
    }
    copies_->copy_to_device(target.data(), pinned.data(), pinned.num_bytes());
    return target;
  }

  DeviceMemory const& memory_;
  TrainingKernels<Scalar> const& host_;
  Weights const* weights_;
  LayerStrips const* strips_;
  std::unique_ptr<Stream> copies_;  ///< the stream of copies to the device
  std::unique_ptr<Stream> on_host_; ///< the stream on which the host shifts numbers
  Buffer buffers_[2];
  DeviceNumbers<Scalar> gradients_;
  std::size_t current_ = 0; ///< the buffer that kernels use
  std::optional<LayerUse> ahead_;
};

} // namespace varve
