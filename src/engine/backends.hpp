#pragma once

#include "engine/inference.hpp"

#include <memory>

namespace varve {

/// prepare() for one backend each; every one is compiled in its own file, if Kokkos has the backend.
std::unique_ptr<Inference> prepare_serial(NetworkSource const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_openmp(NetworkSource const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_cuda(NetworkSource const& network, InferenceOptions const& options);

/// prepare() for the engines to compare with. The network must live as long as the reference engine.
std::unique_ptr<Inference> prepare_kokkos_kernels(NetworkSource const& network, InferenceOptions const& options);
std::unique_ptr<Inference> prepare_reference(NetworkSource const& network, InferenceOptions const& options);

} // namespace varve
