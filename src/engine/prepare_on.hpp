#pragma once

#include "engine/backends.hpp"
#include "engine/layer_loop.hpp"

#include <memory>

namespace varve {

/// Chooses the scalar type.
template <class ExecutionSpace>
std::unique_ptr<Inference> prepare_on(NetworkToRun const& network, InferenceOptions const& options) {
  return options.precision == Precision::double_precision
             ? std::unique_ptr<Inference>(std::make_unique<LayerLoop<ExecutionSpace, double>>(network, options))
             : std::make_unique<LayerLoop<ExecutionSpace, float>>(network, options);
}

} // namespace varve
