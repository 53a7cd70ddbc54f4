#include "plan/memory.hpp"

#include "core/runtime.hpp"
#include "plan/sentences.hpp"

#include <algorithm>

namespace varve {
namespace {

/// Bytes in which layers for a GPU may be encoded however little may be kept of them.
constexpr std::size_t least_encoding = std::size_t(64) << 20U;

} // namespace

MemoryLimits memory_limits(MemoryRequest const& request, Backend backend) {
  MemoryLimits limits;
  limits.device_weights = request.device_weight_limit;
  if (has_own_memory(backend)) {
    limits.device = request.device_memory_limit.value_or(available_memory(backend) / 10 * 9);
    std::size_t const host = available_memory(Backend::serial);
    limits.host_weights = request.memory_limit.value_or(host / 2);
    limits.encoding = std::max(request.memory_limit.value_or(host / 10 * 9), least_encoding);
    return limits;
  }
  std::size_t const both = request.memory_limit.value_or(available_memory(backend) / 10 * 9);
  limits.device = std::min(both, request.device_memory_limit.value_or(both));
  limits.host_weights = both - limits.device;
  limits.encoding = both;
  return limits;
}

std::size_t room_for_weights(MemoryLimits const& limits, std::size_t smallest_batch_bytes) {
  std::size_t const room = limits.device - std::min(limits.device, smallest_batch_bytes);
  return std::min(room, limits.device_weights.value_or(room));
}

std::size_t choose_batch(BatchRequest const& request, std::size_t device_limit,
                         std::function<std::size_t(std::size_t)> const& bytes_of) {
  std::size_t const step = request.step;
  std::size_t const room = device_limit - std::min(device_limit, request.weight_bytes);
  std::size_t const most = std::min(room / bytes_of(step), request.most_at_all / step) * step;
  std::size_t const usual = std::max<std::size_t>(1, std::min(most, request.enough.value_or(most)));
  std::size_t const wanted = std::min(std::max<std::size_t>(request.num_samples, 1), request.asked.value_or(usual));
  if (most == 0 || wanted > most)
    batch_exceeds_memory(wanted, bytes_of(wanted), request.weight_bytes, device_limit, most);
  return std::max<std::size_t>(1, std::min(request.num_samples, wanted));
}

} // namespace varve
