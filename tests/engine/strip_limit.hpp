#pragma once

#include "core/error.hpp"
#include "engine/training.hpp"

#include <cstddef>

namespace varve::test {

/// The options with the least device_memory_limit, to a 100th, with which the network can be trained.
inline TrainingOptions with_least_memory(Network const& network, TrainingOptions options) {
  options.device_memory_limit.reset();
  auto const plan = prepare_training(network, options)->plan();
  std::size_t enough = plan.weight_bytes + plan.activation_bytes;
  std::size_t too_little = 0;
  while (enough - too_little > enough / 100) {
    options.device_memory_limit = too_little + (enough - too_little) / 2;
    try {
      prepare_training(network, options);
      enough = *options.device_memory_limit;
    } catch (ResourceError const&) {
      too_little = *options.device_memory_limit;
    }
  }
  options.device_memory_limit = enough;
  return options;
}

} // namespace varve::test
