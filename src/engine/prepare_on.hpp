#pragma once

#include "engine/layer_loop.hpp"

#include <memory>

namespace varve {

/// Chooses scalar type and tile shape.
template <class ExecutionSpace>
std::unique_ptr<Inference> prepare_on(NetworkSource const& network, InferenceOptions const& options) {
  if (options.precision == Precision::double_precision) {
    if (options.narrow_tiles) return std::make_unique<LayerLoop<ExecutionSpace, double, true>>(network, options);
    return std::make_unique<LayerLoop<ExecutionSpace, double, false>>(network, options);
  }
  if (options.narrow_tiles) return std::make_unique<LayerLoop<ExecutionSpace, float, true>>(network, options);
  return std::make_unique<LayerLoop<ExecutionSpace, float, false>>(network, options);
}

} // namespace varve
