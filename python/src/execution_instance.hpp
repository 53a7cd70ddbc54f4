#pragma once

#include "core/backend.hpp"

#include <memory>

namespace varve::python {

/// The default instance of a backend's Kokkos execution space, as InferenceOnDevice takes it (CUDA: the default
/// stream). Let go of it before Kokkos ends.
std::shared_ptr<void const> default_instance(Backend backend);

} // namespace varve::python
