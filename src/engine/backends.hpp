#pragma once

#include "engine/inference.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// A network as it is run.
struct NetworkToRun {
  std::shared_ptr<NetworkSource const> layers;
  std::optional<ReductionReport> reduction; ///< if it was rewritten
  std::vector<NeuronIndex> output_map;      ///< output as given -> output of the last layer; empty: the same
};

/// prepare() for one backend each; every one is compiled in its own file, if Kokkos has the backend.
std::unique_ptr<Inference> prepare_serial(NetworkToRun const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_openmp(NetworkToRun const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_cuda(NetworkToRun const& network, InferenceOptions const& options);

/// prepare() for the engines to compare with. The network must live as long as the reference engine.
std::unique_ptr<Inference> prepare_kokkos_kernels(NetworkSource const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_reference(NetworkSource const& network, InferenceOptions const& options);

} // namespace varve
