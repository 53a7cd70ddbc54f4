#pragma once

/// \file
/// Inference on Kokkos Views.

#include <varve/inference.hpp>

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace varve::v0_3 {

/// The backend of a Kokkos execution space.
template <class ExecutionSpace>
constexpr Backend backend_of() {
#if defined(KOKKOS_ENABLE_CUDA)
  if (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) return Backend::cuda;
#endif
#if defined(KOKKOS_ENABLE_HIP)
  if (std::is_same_v<ExecutionSpace, Kokkos::HIP>) return Backend::hip;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
  if (std::is_same_v<ExecutionSpace, Kokkos::OpenMP>) return Backend::openmp;
#endif
  return Backend::serial;
}

/// Runs samples(sample, input) through a network and writes activations(sample, output), zeros too, where the Views
/// lie: no value is copied to the host. Kernels are launched in the instance `space`; returns when the activations are
/// written. Views are of rank 2, of float or double as the precision of the network says, in LayoutRight, LayoutLeft or
/// LayoutStride, in memory that the space can access, and do not overlap. The bits are those of
/// PreparedNetwork::infer(). Throws as PreparedNetwork::infer_on_device().
template <class ExecutionSpace, class InputView, class OutputView>
InferenceResult infer(PreparedNetwork& network, ExecutionSpace const& space, InputView const& samples,
                      OutputView const& activations) {
  using Scalar = typename OutputView::non_const_value_type;
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>, "the second argument is an execution space");
  static_assert(Kokkos::is_view_v<InputView> && Kokkos::is_view_v<OutputView>, "samples and activations are Views");
  static_assert(InputView::rank() == 2 && OutputView::rank() == 2, "samples and activations are of rank 2");
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>, "activations are float or double");
  static_assert(std::is_same_v<typename InputView::non_const_value_type, Scalar>,
                "samples and activations have the same type");
  static_assert(!std::is_const_v<typename OutputView::value_type>, "activations can be written");
  static_assert(Kokkos::SpaceAccessibility<ExecutionSpace, typename InputView::memory_space>::accessible &&
                    Kokkos::SpaceAccessibility<ExecutionSpace, typename OutputView::memory_space>::accessible,
                "the execution space can access the memory of both Views");
  return network.infer_on_device(
      backend_of<ExecutionSpace>(),
      std::is_same_v<Scalar, double> ? Precision::double_precision : Precision::single_precision, &space,
      {samples.data(), samples.extent(0), samples.extent(1), samples.stride(0), samples.stride(1)},
      {activations.data(), activations.extent(0), activations.extent(1), activations.stride(0), activations.stride(1)});
}

} // namespace varve::v0_3
