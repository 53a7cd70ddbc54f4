#pragma once

#include "core/error.hpp"
#include "engine/backends.hpp"
#include "engine/layer_loop.hpp"

#include <memory>

namespace varve {

/// Chooses the tile shape.
template <class ExecutionSpace, class Scalar>
std::unique_ptr<Inference> prepare_with(NetworkToRun const& network, InferenceOptions const& options) {
  if (!options.narrow_tiles) return std::make_unique<LayerLoop<ExecutionSpace, Scalar, false>>(network, options);
  if constexpr (Tuning<ExecutionSpace, Scalar>::has_narrow_tiles) {
    return std::make_unique<LayerLoop<ExecutionSpace, Scalar, true>>(network, options);
  }
  throw UsageError("the backend " + to_string(options.backend) + " has no narrow tiles");
}

/// Chooses the scalar type.
template <class ExecutionSpace>
std::unique_ptr<Inference> prepare_on(NetworkToRun const& network, InferenceOptions const& options) {
  return options.precision == Precision::double_precision ? prepare_with<ExecutionSpace, double>(network, options)
                                                          : prepare_with<ExecutionSpace, float>(network, options);
}

} // namespace varve
