#pragma once

#include "core/backend.hpp"

#include <cstdint>
#include <optional>

/// What the other files, which see no Kokkos, need to know of its devices.
namespace varve::python {

/// The instance of a backend's Kokkos execution space on a stream of the caller, by its handle, or without one the
/// default instance, as InferenceOnDevice takes it. Made once for each stream, which takes milliseconds on a GPU, and
/// kept until Kokkos ends. Call it in a Turn.
void const* instance(Backend backend, std::optional<std::uintptr_t> stream = std::nullopt);

/// The GPU that Kokkos runs on, and the stream of its default instance there.
struct Gpu {
  int number = 0;            ///< among those that the process sees, as DLPack counts them
  std::uintptr_t stream = 0; ///< as DLPack numbers streams; others wait for it only where they say so
};

/// The GPU of this process; nullopt in builds without one. Call it while Kokkos runs.
std::optional<Gpu> gpu();

} // namespace varve::python
