#include "engine/memory_limits.hpp"

#include "core/runtime.hpp"

#include <algorithm>

namespace varve {

MemoryLimits memory_limits(InferenceOptions const& options) {
  MemoryLimits limits;
  limits.device_weights = options.device_weight_limit;
  if (options.backend == Backend::cuda) {
    limits.device = options.device_memory_limit.value_or(available_memory(options.backend) / 10 * 9);
    limits.host_weights = options.memory_limit.value_or(available_memory(Backend::serial) / 2);
    return limits;
  }
  std::size_t const both = options.memory_limit.value_or(available_memory(options.backend) / 10 * 9);
  limits.device = std::min(both, options.device_memory_limit.value_or(both));
  limits.host_weights = both - limits.device;
  return limits;
}

} // namespace varve
