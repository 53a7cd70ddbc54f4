#pragma once

#include "core/error.hpp"
#include "engine/inference.hpp"
#include "engine/training.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// A network as it is run, after the passes.
struct NetworkToRun {
  std::shared_ptr<NetworkSource const> layers;
  std::optional<ReductionReport> reduction;      ///< empty if the network was not rewritten
  std::vector<NeuronIndex> output_map;           ///< output as given -> output of `layers`; empty: output j is output j
  std::shared_ptr<OrderedNetwork const> ordered; ///< the same object as `layers` if edges were reordered, else null
};

/// prepare() for one backend and scalar type, float or double: whatever options.precision and options.backend say. The
/// build makes a file from backend.cpp.in for each of them that Kokkos has.
template <Backend backend, class Scalar>
std::unique_ptr<Inference> prepare_on_backend(NetworkToRun const& network, InferenceOptions const& options);

/// prepare_training() for one backend and scalar type, in a file made from backend_training.cpp.in.
template <Backend backend, class Scalar>
std::unique_ptr<Training> train_on_backend(Network const& network, TrainingOptions const& options);

/// Calls work.operator()<backend, Scalar>() with the backend among `Compiled` and the scalar type that the options
/// name. Throws UsageError if the build lacks the backend.
template <Backend... Compiled, class Options, class Work>
auto on_chosen_backend(Options const& options, Work const& work) {
  decltype(work.template operator()<Backend::serial, float>()) made;
  bool const in_double = options.precision == Precision::double_precision;
  auto const make = [&]<Backend backend>() {
    made = in_double ? work.template operator()<backend, double>() : work.template operator()<backend, float>();
  };
  ((options.backend == Compiled ? make.template operator()<Compiled>() : void()), ...);
  if (made == nullptr) throw UsageError("this build has no backend " + to_string(options.backend));
  return made;
}

/// prepare() for the engines that serve comparison. The one of Kokkos Kernels adds products in the library's own order,
/// whatever options.edge_order says.
std::unique_ptr<Inference> prepare_kokkos_kernels(NetworkSource const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_reference(NetworkToRun const& network, InferenceOptions const& options);

} // namespace varve
