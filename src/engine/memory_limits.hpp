#pragma once

#include "engine/inference.hpp"

#include <cstddef>
#include <optional>

namespace varve {

/// How many bytes may be used for what, all options and defaults taken together.
struct MemoryLimits {
  std::size_t device = 0;                    ///< on the device: weights, panel and samples
  std::optional<std::size_t> device_weights; ///< of these for weights, if that was asked for
  std::size_t host_weights = 0;              ///< of the host for weights that are on their way to the device
};

/// Where nothing is said: nine tenths of what is available on a device, half of what is available on its host. Where
/// the device is the host itself, memory_limit is for both, and what device_memory_limit leaves of it keeps weights.
MemoryLimits memory_limits(InferenceOptions const& options);

} // namespace varve
