#pragma once

#include "core/execution.hpp"
#include "engine/backends.hpp"
#include "engine/device_inference.hpp"

#include <memory>

namespace varve {

template <Backend backend, class Scalar>
std::unique_ptr<Inference> prepare_on_backend(NetworkToRun const& network, InferenceOptions const& options) {
  return std::make_unique<DeviceInference<SpaceOf<backend>, Scalar>>(network, options);
}

} // namespace varve
