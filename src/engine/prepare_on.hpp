#pragma once

#include "core/execution.hpp"
#include "engine/backends.hpp"
#include "engine/device_inference.hpp"

#include <memory>

namespace varve {

/// prepare() on one backend: chooses the scalar type.
template <Backend backend>
std::unique_ptr<Inference> prepare_on_backend(NetworkToRun const& network, InferenceOptions const& options) {
  return options.precision == Precision::double_precision
             ? std::unique_ptr<Inference>(std::make_unique<DeviceInference<SpaceOf<backend>, double>>(network, options))
             : std::make_unique<DeviceInference<SpaceOf<backend>, float>>(network, options);
}

} // namespace varve
