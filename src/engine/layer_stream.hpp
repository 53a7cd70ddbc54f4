#pragma once

#include "engine/layer_strips.hpp"
#include "engine/pinned_arrays.hpp"
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

/// numbers(i) -= shift. Index: number.
template <class ExecutionSpace>
struct Subtract {
  DeviceArray<ExecutionSpace, std::uint32_t> numbers;
  std::uint32_t shift;

  KOKKOS_FUNCTION void operator()(std::size_t i) const { numbers(i) -= shift; }
};

/// What kernels read of a strip of a layer. The arrays belong to others and hold the strip alone.
template <class ExecutionSpace, class Scalar>
struct DirectedLayer {
  LayerStrip strip;
  EdgeRows<ExecutionSpace> const& edges;
  ConstDeviceArray<ExecutionSpace, Scalar> const& weights;       ///< in the order of `edges`, or dense
  ConstDeviceArray<ExecutionSpace, double> const& bias;          ///< for the forward direction
  ConstDeviceArray<ExecutionSpace, std::uint32_t> const& places; ///< OfLayer::dense_places, for the backward direction,
                                                                 ///< from the strip's first place on
};

/// Layers of a network whose weights live on the host pass through two buffers on the device, whole or in strips: while
/// kernels use the strip in one, the next strip is copied to the other. On GPUs copies come from pinned memory: weights
/// from where they are, the pattern, which the host shifts for a strip, from copies.
template <class ExecutionSpace, class Scalar>
class LayerStream {
public:
  using Host = HostBeside<ExecutionSpace>;
  using Weights = TrainedWeights<Host, Scalar>;

  /// The weights and the strips, of this size at most, must outlive this object. They may change, but no layer may get
  /// more edges or neurons.
  LayerStream(Weights const& weights, LayerStrips const& strips, std::size_t strip_size)
      : weights_(&weights), strips_(&strips) {
    Sizes sizes{strip_size};
    for (auto const& layer : weights.layers())
      sizes.take(static_cast<std::size_t>(layer.num_inputs), static_cast<std::size_t>(layer.num_outputs),
                 layer.edges.num_edges(), layer.format);
    for (auto& buffer : buffers_) buffer = Buffer(sizes);
    if constexpr (!kOnHost<ExecutionSpace>)
      copy_space_ = Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0]; // copies and kernels overlap
  }

  /// Device memory of the buffers for such a network and strips of this size, in bytes.
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

  /// The strip, which kernels launched next on the space may use until the next call. All kernels launched before are
  /// done then.
  DirectedLayer<ExecutionSpace, Scalar> acquire(ExecutionSpace const& space, LayerUse const& use) {
    space.fence("varve: the strip before is done");
    if (ahead_ != use) load(use);
    copy_space_.fence("varve: a strip is on the device");
    ahead_.reset();
    current_ = 1 - current_;
    auto const& buffer = buffers_[current_];
    return {strips_->of(use), buffer.edges, buffer.used_weights, buffer.used_bias, buffer.used_places};
  }

  /// Starts to copy the strip that will be acquired next. To be called once the kernels of the present one have been
  /// launched. The strip must not change until it is acquired or forgotten.
  void prefetch(LayerUse const& use) {
    load(use);
    ahead_ = use;
  }

  /// Forgets a strip that was copied ahead, once it has been copied, because weights have changed or are going to.
  void forget() {
    copy_space_.fence("varve: no weights are copied");
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

  static auto room(char const* label) { return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)); }

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
  };

  struct Buffer {
    Piece<std::uint32_t> rows;
    Piece<NeuronIndex> neurons;
    DeviceArray<ExecutionSpace, Scalar> weights;
    Piece<double> bias;
    Piece<std::uint32_t> places;
    // the parts that hold the present strip
    EdgeRows<ExecutionSpace> edges;
    ConstDeviceArray<ExecutionSpace, Scalar> used_weights;
    ConstDeviceArray<ExecutionSpace, double> used_bias;
    ConstDeviceArray<ExecutionSpace, std::uint32_t> used_places;

    Buffer() = default;
    explicit Buffer(Sizes const& sizes)
        : rows(sizes.rows),
          neurons(sizes.edges),
          weights(room("varve::streamed_weights"), sizes.weights),
          bias(sizes.outputs),
          places(sizes.places) {}
  };

  /// Copies a strip to the buffer that no kernel uses.
  void load(LayerUse const& use) {
    copy_space_.fence("varve: the copy before is done");
    auto const& layer = weights_->layers()[use.layer];
    auto const& strip = strips_->of(use);
    bool const is_forward = use.direction == LayerUse::Direction::forward;
    bool const is_dense = is_forward ? layer.format.has_dense_forward : layer.format.has_dense_backward;
    auto const width = static_cast<std::size_t>(is_forward ? layer.num_inputs : layer.num_outputs);
    auto& buffer = buffers_[1 - current_];
    if (!is_dense) {
      auto const& edges = is_forward ? layer.edges.by_output : layer.edges.by_input;
      buffer.edges.num_rows = static_cast<int>(strip.num_rows);
      buffer.edges.row_pointers =
          put_shifted(buffer.rows, part(edges.row_pointers, strip.first_row, strip.num_rows + 1), strip.first_edge);
      buffer.edges.neurons = put(buffer.neurons, part(edges.neurons, strip.first_edge, strip.num_edges));
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

  template <class T>
  static ConstDeviceArray<Host, T> part(ConstDeviceArray<Host, T> const& numbers, std::size_t first,
                                        std::size_t count) {
    return Kokkos::subview(numbers, std::make_pair(first, first + count));
  }

  /// Does not fence.
  ConstDeviceArray<ExecutionSpace, Scalar> put_weights(DeviceArray<ExecutionSpace, Scalar> const& array,
                                                       ConstDeviceArray<Host, Scalar> const& weights) const {
    auto const target = Kokkos::subview(array, std::make_pair(std::size_t(0), weights.size()));
    if constexpr (kOnHost<ExecutionSpace>) {
      Kokkos::deep_copy(copy_space_, target, weights);
    } else {
      Kokkos::deep_copy(copy_space_, target, PinnedSource<Scalar>(weights.data(), weights.size()));
    }
    return target;
  }

  template <class T>
  ConstDeviceArray<ExecutionSpace, T> put(Piece<T> const& piece, ConstDeviceArray<Host, T> const& numbers) const {
    return put_changed(piece, numbers, [](auto const&) {});
  }

  /// Puts the numbers minus `shift`.
  ConstDeviceArray<ExecutionSpace, std::uint32_t> put_shifted(Piece<std::uint32_t> const& piece,
                                                              ConstDeviceArray<Host, std::uint32_t> const& numbers,
                                                              std::size_t shift) const {
    return put_changed(piece, numbers, [&](DeviceArray<Host, std::uint32_t> const& copied) {
      if (shift == 0) return;
      using Policy = Kokkos::RangePolicy<Host, Kokkos::IndexType<std::size_t>>;
      Kokkos::parallel_for("varve::shift_strip", Policy(Host(), 0, copied.size()),
                           Subtract<Host>{copied, static_cast<std::uint32_t>(shift)});
    });
  }

  /// Copies numbers to the piece; `change` may change the copy while it is on the host.
  template <class T, class Change>
  ConstDeviceArray<ExecutionSpace, T> put_changed(Piece<T> const& piece, ConstDeviceArray<Host, T> const& numbers,
                                                  Change const& change) const {
    auto const used = std::make_pair(std::size_t(0), numbers.size());
    auto const target = Kokkos::subview(piece.on_device, used);
    if constexpr (kOnHost<ExecutionSpace>) {
      Kokkos::deep_copy(copy_space_, target, numbers);
      change(target);
    } else {
      auto const pinned = Kokkos::subview(piece.pinned, used);
      Host const host;
      DeviceArray<Host, T> const copied(pinned.data(), pinned.size());
      Kokkos::deep_copy(host, copied, numbers);
      change(copied);
      host.fence("varve: a strip is in pinned memory");
      Kokkos::deep_copy(copy_space_, target, pinned);
    }
    return target;
  }

  Weights const* weights_;
  LayerStrips const* strips_;
  ExecutionSpace copy_space_;
  Buffer buffers_[2];
  std::size_t current_ = 0; ///< the buffer whose strip kernels use
  std::optional<LayerUse> ahead_;
};

} // namespace varve
