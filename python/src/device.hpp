#pragma once

#include "core/backend.hpp"

#include <cstdint>
#include <memory>
#include <optional>

/// What the other files, which see no Kokkos, need to know of its devices.
namespace varve::python {

/// The default instance of a backend's Kokkos execution space, as InferenceOnDevice takes it. Let go of it before
/// Kokkos ends.
std::shared_ptr<void const> default_instance(Backend backend);

/// The GPU that Kokkos runs on, and the stream of its default instance there.
struct Gpu {
  int number = 0;            ///< among those that the process sees, as DLPack counts them
  std::uintptr_t stream = 0; ///< as DLPack numbers streams; others wait for it only where they say so
};

/// The GPU of this process; nullopt in builds without one. Call it while Kokkos runs.
std::optional<Gpu> gpu();

} // namespace varve::python
