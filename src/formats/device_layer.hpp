#pragma once

#include "core/device_memory.hpp"
#include "core/device_stream.hpp"
#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"
#include "network/network.hpp"
#include "plan/layer_sizes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// A new array on the device with a copy of these numbers. Returns when they have arrived.
template <class ExecutionSpace, class T>
DeviceArray<ExecutionSpace, T> upload(std::string const& label, std::vector<T> const& numbers) {
  DeviceArray<ExecutionSpace, T> array(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), numbers.size());
  device_memory(to_backend<ExecutionSpace>()).copy_and_wait(array.data(), numbers.data(), numbers.size() * sizeof(T));
  return array;
}

/// A copy of the numbers of a device array on the host.
template <class View>
auto download(View const& array) {
  std::vector<typename View::non_const_value_type> numbers(array.extent(0));
  copy_and_wait(Kokkos::View<typename View::non_const_value_type*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                    numbers.data(), numbers.size()),
                array);
  return numbers;
}

/// Destination of the arrays of a format that is streamed, that is, copied to the device as a whole for each use: one
/// after another, aligned, in an image in host memory. Until move_arrays() gives them device addresses, the arrays of
/// the format are views whose pointer is the offset in the image; only their sizes may be used.
template <class ExecutionSpace>
class ArraysInImage {
public:
  static constexpr std::size_t alignment = 256; ///< bytes; device memory is allocated with this alignment

  template <class T>
  ConstDeviceArray<ExecutionSpace, T> put(std::vector<T> const& numbers) {
    auto const [place, offset] = append<T>(numbers.size());
    std::ranges::copy(numbers, place.data()); // a deep_copy would wait for the device
    return offset;
  }

  /// Moves an array from the device into the image; `array` becomes a view at its offset and releases its device
  /// memory.
  template <class T>
  void take(Kokkos::View<T const*, typename ExecutionSpace::memory_space>& array) {
    auto const [place, offset] = append<T>(array.size());
    copy_and_wait(place, array);
    array = offset;
  }

  std::vector<unsigned char> const& bytes() const { return bytes_; }
  std::vector<unsigned char> release() { return std::move(bytes_); }

private:
  template <class T>
  using HostArray = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  /// Appends room for `count` numbers. Returns their place in the image and a view at their offset.
  template <class T>
  std::pair<HostArray<T>, ConstDeviceArray<ExecutionSpace, T>> append(std::size_t count) {
    std::size_t const offset = bytes_.size();
    bytes_.resize(offset + (count * sizeof(T) + alignment - 1) / alignment * alignment);
    return {HostArray<T>(reinterpret_cast<T*>(bytes_.data() + offset), count),
            ConstDeviceArray<ExecutionSpace, T>(reinterpret_cast<T const*>(offset), count)};
  }

  std::vector<unsigned char> bytes_;
};

/// Calls visit(array) for every array of a format on the device: those of Format::arrays_of(), in order.
template <class Format, class Visit>
void for_each_array(Format& format, Visit const& visit) {
  std::apply([&](auto&... arrays) { (visit(arrays), ...); }, std::remove_const_t<Format>::arrays_of(format));
}

/// Bytes of all arrays of a format on the device.
template <class Format>
std::size_t bytes_on_device(Format const& format) {
  std::size_t bytes = 0;
  for_each_array(format, [&](auto const& array) { bytes += array.size() * sizeof(*array.data()); });
  return bytes;
}

/// Replaces the offsets of a format's arrays by device addresses; the image will be at `image` on the device.
template <class Format>
void move_arrays(Format& format, unsigned char const* image) {
  for_each_array(format, [&](auto& array) {
    using Array = std::decay_t<decltype(array)>;
    auto const offset = reinterpret_cast<std::uintptr_t>(array.data());
    array = Array(reinterpret_cast<typename Array::pointer_type>(image + offset), array.size());
  });
}

/// Destination of the arrays of a layer's format: the device, to which put() copies each at once, or an image.
template <class ExecutionSpace>
struct LayerArrays {
  ArraysInImage<ExecutionSpace>* image = nullptr; ///< null: the device

  template <class T>
  ConstDeviceArray<ExecutionSpace, T> put(std::string const& label, std::vector<T> const& numbers) const {
    return image != nullptr ? image->put(numbers) : upload<ExecutionSpace>(label, numbers);
  }
};

/// The bounds of an activation function. They are finite, so that every activation is finite and padding with zero
/// weights adds nothing to a sum.
template <class Scalar>
Bounds<Scalar> bounds_of(Activation const& activation) {
  Scalar const lowest = activation.slope > 0.0 ? std::numeric_limits<Scalar>::lowest() : Scalar(0);
  double const slope = activation.curve() != Curve::none ? Bounds<Scalar>::slope_of(activation.curve())
                       : activation.scales_below_zero()  ? activation.slope
                                                         : 1.0;
  return {lowest, finite_cap<Scalar>(activation), slope};
}

/// Shape, order, bias and activation of a layer as kernel arguments. Outputs are stored at positions; neuron_of(p) is
/// the neuron that position p computes. bias_of() and neuron_of() may be called up to the end of the last block.
template <class Scalar>
struct LayerParameters {
  int num_inputs;
  int num_outputs;
  Bounds<Scalar> bounds;
  int bias_stride;                      ///< 0: one bias for all outputs
  ArrayView<double const> bias;         ///< [position]
  ArrayView<NeuronIndex const> neurons; ///< [position]

  KOKKOS_FORCEINLINE_FUNCTION double bias_of(int position) const { return bias(position * bias_stride); }
  KOKKOS_FORCEINLINE_FUNCTION int neuron_of(int position) const { return static_cast<int>(neurons(position)); }
};

/// All parts of a layer but its edges, which differ between formats.
template <class ExecutionSpace, class Scalar>
struct LayerFrame {
  int num_inputs = 0;
  int num_outputs = 0;
  Bounds<Scalar> bounds{};
  int bias_stride = 0;
  ConstDeviceArray<ExecutionSpace, double> bias;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> neurons;

  LayerFrame() = default;

  /// `order`: position -> output; empty: position j holds output j. `block_outputs`: biases and neurons are stored for
  /// whole blocks of this many outputs.
  LayerFrame(Layer const& layer, std::vector<NeuronIndex> const& order, LayerArrays<ExecutionSpace> const& arrays,
             std::size_t block_outputs = 16)
      : num_inputs(narrowed<int>(layer.num_inputs(), "inputs of a layer")),
        num_outputs(narrowed<int>(layer.num_outputs(), "outputs of a layer")),
        bounds(bounds_of<Scalar>(layer.activation)),
        bias_stride(layer.bias.size() == 1 ? 0 : 1) {
    std::size_t const padded = padded_outputs(layer.num_outputs(), block_outputs);
    std::vector<NeuronIndex> by_position(padded, 0);
    for (std::size_t position = 0; position < layer.num_outputs(); ++position)
      by_position[position] = order.empty() ? static_cast<NeuronIndex>(position) : order[position];
    std::vector<double> biases(bias_stride == 0 ? 1 : padded, 0.0);
    for (std::size_t i = 0; i < layer.bias.size(); ++i)
      biases[i] = layer.bias[bias_stride == 0 ? 0 : by_position[i]] + 0.0; // -0 becomes +0
    bias = arrays.put("varve::bias", biases);
    neurons = arrays.put("varve::neurons", by_position);
  }

  LayerParameters<Scalar> parameters() const { return {num_inputs, num_outputs, bounds, bias_stride, bias, neurons}; }
};

} // namespace varve
