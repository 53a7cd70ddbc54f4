#pragma once

#include "engine/layer_strips.hpp"
#include "engine/trained_weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
    Sizes sizes{strip_size};
    for (auto const& layer : weights.layers())
      sizes.take(static_cast<std::size_t>(layer.num_inputs), static_cast<std::size_t>(layer.num_outputs),
                 layer.edges.num_edges(), layer.format);
    for (auto& buffer : buffers_) buffer = Buffer(memory, sizes);
  }

  /// Device memory of the buffers for such a network and strips of strip_size, in bytes.
  static std::size_t bytes_for(Network const& network, std::vector<TrainedFormat> const& formats,
                               std::size_t strip_size) {
    Sizes sizes{strip_size};
    for (std::size_t number = 0; number < formats.size(); ++number) {
      auto const& layer = network.layers()[number];
      sizes.take(layer.num_inputs(), layer.num_outputs(), layer.num_edges(), formats[number]);
    }
    return 2 * ((sizes.rows + sizes.places) * sizeof(std::uint32_t) + sizes.edges * sizeof(NeuronIndex) +
                sizes.weights * sizeof(Scalar) + sizes.outputs * sizeof(double));
  }

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
    std::size_t strip; ///< weights and rows
    std::size_t rows = 0, edges = 0, weights = 0, outputs = 0, places = 0;

    void take(std::size_t num_inputs, std::size_t num_outputs, std::size_t num_edges, TrainedFormat const& format) {
      bool const is_dense = format.has_dense_forward || format.has_dense_backward;
      std::size_t const num_places = num_inputs * num_outputs;
      rows = std::max({rows, std::min(num_outputs, strip) + 1, std::min(num_inputs, strip) + 1});
      edges = std::max(edges, std::min(num_edges, strip));
      weights = std::max(weights, std::min(is_dense ? num_places : num_edges, strip));
      outputs = std::max(outputs, std::min(num_outputs, strip));
      if (format.has_dense_backward && num_places > num_edges) places = std::max(places, std::min(num_edges, strip));
    }
  };

  /// An array on the device and, on GPUs, the pinned memory from which it is copied.
  template <class Number>
  struct Piece {
    DeviceNumbers<Number> on_device;
    DeviceNumbers<Number> pinned; ///< empty on CPUs

    Piece() = default;
    Piece(DeviceMemory const& memory, std::size_t size)
        : on_device(new_numbers<Number>(memory, "varve::streamed_layer", size)) {
      if (!memory.is_host())
        pinned = numbers_in<Number>(memory.allocate_on_host("varve::pinned_layer", size * sizeof(Number)));
    }
  };

  struct Buffer {
    Piece<std::uint32_t> rows;
    Piece<NeuronIndex> neurons;
    DeviceNumbers<Scalar> weights;
    Piece<double> bias;
    Piece<std::uint32_t> places;
    // the parts that the present strip uses
    RowsOnDevice used_edges;
    DeviceNumbers<Scalar const> used_weights;
    DeviceNumbers<double const> used_bias;
    DeviceNumbers<std::uint32_t const> used_places;

    Buffer() = default;
    Buffer(DeviceMemory const& memory, Sizes const& sizes)
        : rows(memory, sizes.rows),
          neurons(memory, sizes.edges),
          weights(new_numbers<Scalar>(memory, "varve::streamed_weights", sizes.weights)),
          bias(memory, sizes.outputs),
          places(memory, sizes.places) {}
  };

  /// Copies a strip to the buffer that no kernel uses.
  void load(LayerUse const& use) {
    copies_->fence("varve: the copy before is done");
    auto const& layer = weights_->layers()[use.layer];
    auto const& strip = strips_->of(use);
    bool const is_forward = use.direction == LayerUse::Direction::forward;
    bool const is_dense = is_forward ? layer.format.has_dense_forward : layer.format.has_dense_backward;
    auto const width = static_cast<std::size_t>(is_forward ? layer.num_inputs : layer.num_outputs);
    auto& buffer = buffers_[1 - current_];
    if (!is_dense) {
      auto const& edges = is_forward ? layer.edges.by_output : layer.edges.by_input;
      buffer.used_edges.num_rows = static_cast<int>(strip.num_rows);
      buffer.used_edges.row_pointers =
          put_shifted(buffer.rows, part(edges.row_pointers, strip.first_row, strip.num_rows + 1), strip.first_edge);
      buffer.used_edges.neurons = put(buffer.neurons, part(edges.neurons, strip.first_edge, strip.num_edges));
    }
    auto const& weights = is_forward ? layer.by_output : layer.backward_weights();
    buffer.used_weights =
        put_weights(buffer.weights, is_dense ? part(weights, strip.first_row * width, strip.num_rows * width)
                                             : part(weights, strip.first_edge, strip.num_edges));
    if (is_forward) {
      buffer.used_bias = put(buffer.bias, part(layer.bias, strip.first_row, strip.num_rows));
    } else if (layer.dense_places.size() == 0) {
      buffer.used_places = {};
    } else {
      buffer.used_places = put_shifted(buffer.places, part(layer.dense_places, strip.first_edge, strip.num_edges),
                                       strip.first_row * width);
    }
  }

  template <class Number>
  static DeviceNumbers<Number const> part(DeviceNumbers<Number const> const& numbers, std::size_t first,
                                          std::size_t count) {
    return numbers.part(first, first + count);
  }

  /// Copies weights to the array. Does not fence.
  DeviceNumbers<Scalar const> put_weights(DeviceNumbers<Scalar> const& array,
                                          DeviceNumbers<Scalar const> const& weights) const {
    auto const target = array.part(0, weights.size());
    copies_->copy_to_device(target.data(), weights.data(), weights.num_bytes());
    return target;
  }

  template <class Number>
  DeviceNumbers<Number const> put(Piece<Number> const& piece, DeviceNumbers<Number const> const& numbers) const {
    return put_changed(piece, numbers, [](auto const&) {});
  }

  /// Copies the numbers minus `shift` to the piece.
  DeviceNumbers<std::uint32_t const> put_shifted(Piece<std::uint32_t> const& piece,
                                                 DeviceNumbers<std::uint32_t const> const& numbers,
                                                 std::size_t shift) const {
    return put_changed(piece, numbers, [&](DeviceNumbers<std::uint32_t> const& copied) {
      if (shift != 0) host_.subtract(*on_host_, copied, static_cast<std::uint32_t>(shift));
    });
  }

  /// Copies numbers to the piece; `change` may modify them on the host.
  template <class Number, class Change>
  DeviceNumbers<Number const> put_changed(Piece<Number> const& piece, DeviceNumbers<Number const> const& numbers,
                                          Change const& change) const {
    auto const target = piece.on_device.part(0, numbers.size());
    if (memory_.is_host()) {
      copies_->copy_on_device(target.data(), numbers.data(), numbers.num_bytes());
      change(target);
      return target;
    }
    auto const pinned = piece.pinned.part(0, numbers.size());
    on_host_->copy_on_device(pinned.data(), numbers.data(), numbers.num_bytes());
    change(pinned);
    on_host_->fence("varve: a strip is in pinned memory");
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
  std::size_t current_ = 0; ///< the buffer that kernels use
  std::optional<LayerUse> ahead_;
};

} // namespace varve
