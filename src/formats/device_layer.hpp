#pragma once

#include "core/execution.hpp"
#include "core/pack.hpp"
#include "network/network.hpp"

#include <limits>
#include <string>
#include <vector>

namespace varve {

/// A new array on the device holding the same numbers. Blocks until they have arrived.
template <class ExecutionSpace, class T>
DeviceArray<ExecutionSpace, T> upload(std::string const& label, std::vector<T> const& numbers) {
  DeviceArray<ExecutionSpace, T> array(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), numbers.size());
  Kokkos::deep_copy(array,
                    Kokkos::View<T const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(numbers.data(), numbers.size()));
  return array;
}

/// The numbers of a device array, on the host.
template <class View>
auto download(View const& array) {
  std::vector<typename View::non_const_value_type> numbers(array.extent(0));
  Kokkos::deep_copy(Kokkos::View<typename View::non_const_value_type*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                        numbers.data(), numbers.size()),
                    array);
  return numbers;
}

template <class Scalar>
Bounds<Scalar> bounds_of(Activation const& activation) {
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  switch (activation.kind) {
  case ActivationKind::identity:
    return {-infinity, infinity};
  case ActivationKind::relu:
    return {Scalar(0), infinity};
  case ActivationKind::clipped_relu:
    return {Scalar(0), static_cast<Scalar>(activation.cap)};
  }
  throw std::logic_error("varve: unknown activation");
}

/// What every format holds of a layer besides its edges.
template <class ExecutionSpace, class Scalar>
struct LayerFrame {
  int num_inputs = 0;
  int num_outputs = 0;
  Bounds<Scalar> bounds{};
  int bias_stride = 0;                           ///< 0: one bias for all outputs
  ConstDeviceArray<ExecutionSpace, double> bias; ///< one, or one per output

  LayerFrame() = default;
  explicit LayerFrame(Layer const& layer)
      : num_inputs(static_cast<int>(layer.num_inputs())),
        num_outputs(static_cast<int>(layer.num_outputs())),
        bounds(bounds_of<Scalar>(layer.activation)),
        bias_stride(layer.bias.size() == 1 ? 0 : 1) {
    std::vector<double> positive_zeros = layer.bias;
    for (double& value : positive_zeros) value += 0.0; // -0 becomes +0: one less way to a -0 activation
    bias = upload<ExecutionSpace>("varve::bias", positive_zeros);
  }

  KOKKOS_FUNCTION double bias_of(int output) const { return bias(output * bias_stride); }
};

} // namespace varve
