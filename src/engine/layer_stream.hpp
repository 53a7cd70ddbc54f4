#pragma once

#include "engine/trained_weights.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// The execution space of the host beside a device. A CPU backend is its own.
template <class ExecutionSpace>
using HostBeside = std::conditional_t<kOnHost<ExecutionSpace>, ExecutionSpace, Kokkos::DefaultHostExecutionSpace>;

/// A layer and the direction in which kernels use it: forward by output, backward by input.
struct LayerUse {
  enum class Direction { forward, backward };
  std::size_t layer = 0;
  Direction direction = Direction::forward;

  bool operator==(LayerUse const&) const = default;
};

/// What kernels read of a layer in one direction. The arrays belong to others.
template <class ExecutionSpace, class Scalar>
struct DirectedLayer {
  EdgeRows<ExecutionSpace> const& edges;
  ConstDeviceArray<ExecutionSpace, Scalar> const& weights;       ///< in the order of `edges`, or dense
  ConstDeviceArray<ExecutionSpace, double> const& bias;          ///< for the forward direction
  ConstDeviceArray<ExecutionSpace, std::uint32_t> const& places; ///< OfLayer::dense_places, for the backward direction
};

/// Layers of a network whose weights live on the host pass through two buffers on the device: while kernels use the
/// layer in one, the next layer is copied to the other. On GPUs copies come from pinned memory.
template <class ExecutionSpace, class Scalar>
class LayerStream {
public:
  using Host = HostBeside<ExecutionSpace>;
  using Weights = TrainedWeights<Host, Scalar>;

  /// The weights must outlive this object. They may change, but no layer may get more edges or neurons.
  explicit LayerStream(Weights const& weights) : weights_(&weights) {
    Sizes sizes;
    for (auto const& layer : weights.layers())
      sizes.take(static_cast<std::size_t>(layer.num_inputs), static_cast<std::size_t>(layer.num_outputs),
                 layer.edges.num_edges(), layer.format);
    for (auto& buffer : buffers_) buffer = Buffer(sizes);
    if constexpr (!kOnHost<ExecutionSpace>)
      copy_space_ = Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0]; // copies and kernels overlap
  }

  /// Device memory of the buffers for such a network, in bytes.
  static std::size_t bytes_for(Network const& network, std::vector<TrainedFormat> const& formats) {
    Sizes sizes;
    for (std::size_t number = 0; number < formats.size(); ++number) {
      auto const& layer = network.layers()[number];
      sizes.take(layer.num_inputs(), layer.num_outputs(), layer.num_edges(), formats[number]);
    }
    return 2 * ((sizes.rows + sizes.places) * sizeof(std::uint32_t) + sizes.edges * sizeof(NeuronIndex) +
                sizes.weights * sizeof(Scalar) + sizes.outputs * sizeof(double));
  }

  /// The layer, which kernels launched next on the space may use until the next call. All kernels launched before are
  /// done then.
  DirectedLayer<ExecutionSpace, Scalar> acquire(ExecutionSpace const& space, LayerUse const& use) {
    space.fence("varve: the layer before is done");
    if (ahead_ != use) load(use);
    copy_space_.fence("varve: a layer is on the device");
    ahead_.reset();
    current_ = 1 - current_;
    auto const& buffer = buffers_[current_];
    return {buffer.edges, buffer.used_weights, buffer.used_bias, buffer.used_places};
  }

  /// Starts to copy the layer that will be acquired next. To be called once the kernels of the present one have been
  /// launched. The layer must not change until then.
  void prefetch(LayerUse const& use) {
    load(use);
    ahead_ = use;
  }

  /// Forgets a layer that was copied ahead, because weights may have changed.
  void forget() { ahead_.reset(); }

private:
  /// The sizes of the largest arrays of all layers.
  struct Sizes {
    std::size_t rows = 0, edges = 0, weights = 0, outputs = 0, places = 0;

    void take(std::size_t num_inputs, std::size_t num_outputs, std::size_t num_edges, TrainedFormat const& format) {
      bool const is_dense = format.has_dense_forward || format.has_dense_backward;
      std::size_t const num_places = num_inputs * num_outputs;
      rows = std::max({rows, num_outputs + 1, num_inputs + 1});
      edges = std::max(edges, num_edges);
      weights = std::max(weights, is_dense ? num_places : num_edges);
      outputs = std::max(outputs, num_outputs);
      if (format.has_dense_backward && num_places > num_edges) places = std::max(places, num_edges);
    }
  };

  /// An array on the device, and on GPUs the pinned memory from which it is copied.
  template <class T>
  struct Piece {
    using Pinned =
        Kokkos::View<T*, std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>>;
    DeviceArray<ExecutionSpace, T> on_device;
    Pinned pinned; ///< empty on CPUs

    Piece() = default;
    explicit Piece(std::size_t size) : on_device(room("varve::streamed_layer"), size) {
      if constexpr (!kOnHost<ExecutionSpace>) pinned = Pinned(room("varve::pinned_layer"), size);
    }
    static auto room(char const* label) { return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)); }
  };

  struct Buffer {
    Piece<std::uint32_t> rows;
    Piece<NeuronIndex> neurons;
    Piece<Scalar> weights;
    Piece<double> bias;
    Piece<std::uint32_t> places;
    // the parts that hold the present layer
    EdgeRows<ExecutionSpace> edges;
    ConstDeviceArray<ExecutionSpace, Scalar> used_weights;
    ConstDeviceArray<ExecutionSpace, double> used_bias;
    ConstDeviceArray<ExecutionSpace, std::uint32_t> used_places;

    Buffer() = default;
    explicit Buffer(Sizes const& sizes)
        : rows(sizes.rows), neurons(sizes.edges), weights(sizes.weights), bias(sizes.outputs), places(sizes.places) {}
  };

  /// Copies a layer to the buffer that no kernel uses.
  void load(LayerUse const& use) {
    copy_space_.fence("varve: the copy before is done");
    auto const& layer = weights_->layers()[use.layer];
    bool const is_forward = use.direction == LayerUse::Direction::forward;
    auto& buffer = buffers_[1 - current_];
    if (!(is_forward ? layer.format.has_dense_forward : layer.format.has_dense_backward)) {
      auto const& edges = is_forward ? layer.edges.by_output : layer.edges.by_input;
      buffer.edges.num_rows = edges.num_rows;
      buffer.edges.row_pointers = put(buffer.rows, edges.row_pointers);
      buffer.edges.neurons = put(buffer.neurons, edges.neurons);
    }
    buffer.used_weights = put(buffer.weights, is_forward ? layer.by_output : layer.backward_weights());
    if (is_forward) buffer.used_bias = put(buffer.bias, layer.bias);
    if (!is_forward) buffer.used_places = put<std::uint32_t>(buffer.places, layer.dense_places);
  }

  template <class T>
  ConstDeviceArray<ExecutionSpace, T> put(Piece<T> const& piece, ConstDeviceArray<Host, T> const& numbers) const {
    auto const used = std::make_pair(std::size_t(0), numbers.size());
    auto const target = Kokkos::subview(piece.on_device, used);
    if constexpr (kOnHost<ExecutionSpace>) {
      Kokkos::deep_copy(copy_space_, target, numbers);
    } else {
      auto const pinned = Kokkos::subview(piece.pinned, used);
      Host const host;
      Kokkos::deep_copy(host, DeviceArray<Host, T>(pinned.data(), pinned.size()), numbers);
      host.fence("varve: a layer is in pinned memory");
      Kokkos::deep_copy(copy_space_, target, pinned);
    }
    return target;
  }

  Weights const* weights_;
  ExecutionSpace copy_space_;
  Buffer buffers_[2];
  std::size_t current_ = 0; ///< the buffer whose layer kernels use
  std::optional<LayerUse> ahead_;
};

} // namespace varve
