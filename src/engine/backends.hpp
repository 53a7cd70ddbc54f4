#pragma once

#include "engine/inference.hpp"
#include "engine/training.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// A network as it is run.
struct NetworkToRun {
  std::shared_ptr<NetworkSource const> layers;
  std::optional<ReductionReport> reduction;      ///< if it was rewritten
  std::vector<NeuronIndex> output_map;           ///< output as given -> output of the last layer; empty: the same
  std::shared_ptr<OrderedNetwork const> ordered; ///< the layers, if their edges need not ascend
};

/// prepare() for one backend. backend_NAME.cpp instantiates it for the backend of that name; the build compiles those
/// that Kokkos has.
template <Backend backend>
std::unique_ptr<Inference> prepare_on_backend(NetworkToRun const& network, InferenceOptions const& options);

/// prepare_training() for one backend; training_NAME.cpp instantiates it.
template <Backend backend>
std::unique_ptr<Training> train_on_backend(Network const& network, TrainingOptions const& options);

/// prepare() for the engines to compare with. That of Kokkos Kernels adds up in the library's own order in any case.
std::unique_ptr<Inference> prepare_kokkos_kernels(NetworkSource const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_reference(NetworkToRun const& network, InferenceOptions const& options);

} // namespace varve
