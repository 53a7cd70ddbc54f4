#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <functional>
#include <optional>

namespace varve {

/// What was asked of memory, in bytes.
struct MemoryRequest {
  /// On the host for weights that are streamed to a device. Where the device is the host itself: for everything
  /// together, and what device_memory_limit leaves of it is for such weights.
  std::optional<std::size_t> memory_limit;
  std::optional<std::size_t> device_memory_limit; ///< on the device for weights, panel and samples together
  std::optional<std::size_t> device_weight_limit; ///< of device_memory_limit for weights
};

/// How many bytes may be used for what, the request and all defaults taken together.
struct MemoryLimits {
  std::size_t device = 0;                    ///< on the device: weights, panel and samples
  std::optional<std::size_t> device_weights; ///< of these for weights, if that was asked for
  std::size_t host_weights = 0;              ///< of the host for weights that are on their way to the device
};

/// Where nothing is asked: nine tenths of what is available on a device, half of what is available on its host. Where
/// the device is the host itself, memory_limit is for both, and what device_memory_limit leaves of it keeps weights.
MemoryLimits memory_limits(MemoryRequest const& request, Backend backend);

/// Bytes that weights may take on the device: what was asked for, or what the smallest batch leaves.
std::size_t room_for_weights(MemoryLimits const& limits, std::size_t smallest_batch_bytes);

/// Samples at a time that an input of `num_samples` gets: all, or as many as were `asked` for, or as many as have room
/// beside weights of `weight_bytes` (in multiples of `step`, of at most `most_at_all`).
struct BatchRequest {
  std::size_t num_samples = 0;
  std::optional<std::size_t> asked;
  std::optional<std::size_t> enough; ///< more at a time would not be faster
  std::size_t weight_bytes = 0;
  std::size_t step = 1;
  std::size_t most_at_all = 0;
};

/// Throws ResourceError, saying what is needed, if not even the smallest batch, or not what was asked for, has room.
/// `bytes_of(samples)`: what a batch of so many takes.
std::size_t choose_batch(BatchRequest const& request, std::size_t device_limit,
                         std::function<std::size_t(std::size_t)> const& bytes_of);

} // namespace varve
