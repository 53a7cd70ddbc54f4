#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <functional>
#include <optional>

namespace varve {

/// Memory limits that the user asks for, in bytes.
struct MemoryRequest {
  /// With a GPU: host memory for encoded weights that are streamed to it. On CPU backends: the limit for everything; of
  /// this, what device_memory_limit leaves is for encoded weights.
  std::optional<std::size_t> memory_limit;
  std::optional<std::size_t> device_memory_limit; ///< device memory for weights, panel and samples together
  std::optional<std::size_t> device_weight_limit; ///< the part of device_memory_limit for weights
};

/// Memory limits in bytes, from the request and defaults.
struct MemoryLimits {
  std::size_t device = 0;                    ///< device memory for weights, panel and samples together
  std::optional<std::size_t> device_weights; ///< the part of `device` for weights, if the request has one
  std::size_t host_weights = 0;              ///< host memory for encoded weights that are streamed to the device
  std::size_t encoding = 0;                  ///< host memory in which layers are encoded before they are placed
};

/// The limits of a request. Defaults with a GPU: nine tenths of the available device memory, and half of the available
/// host memory. On CPU backends memory_limit, by default nine tenths of the available memory, is for both; host_weights
/// is what device_memory_limit leaves of it. Layers are encoded within memory_limit, by default nine tenths of the
/// available host memory, for a GPU at least within 64 MiB.
MemoryLimits memory_limits(MemoryRequest const& request, Backend backend);

/// Bytes that weights may take on the device: what the smallest batch leaves, and at most device_weights.
std::size_t room_for_weights(MemoryLimits const& limits, std::size_t smallest_batch_bytes);

/// The quantities that decide the size of a batch.
struct BatchRequest {
  std::size_t num_samples = 0;       ///< samples of the input
  std::optional<std::size_t> asked;  ///< batch that the user asks for
  std::optional<std::size_t> enough; ///< samples beyond which a larger batch is not faster
  std::size_t weight_bytes = 0;      ///< device memory of weights
  std::size_t step = 1;              ///< memory is allocated for multiples of so many samples
  std::size_t most_at_all = 0;       ///< limit of the panel's indices
};

/// Samples of a batch: all samples of the input, or as many as were asked for, or as many as fit beside the weights.
/// bytes_of(samples): memory of a batch. Throws ResourceError, saying how much is needed, if the batch that was asked
/// for, or the smallest one, does not fit.
std::size_t choose_batch(BatchRequest const& request, std::size_t device_limit,
                         std::function<std::size_t(std::size_t)> const& bytes_of);

} // namespace varve
