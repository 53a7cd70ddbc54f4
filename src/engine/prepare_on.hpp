#pragma once

#include "engine/layer_loop.hpp"

namespace varve {

template <class ExecutionSpace, class Scalar>
std::unique_ptr<Inference> prepare_with(NetworkSource const& network, InferenceOptions const& options) {
  using Wide = typename Tuning<ExecutionSpace, Scalar>::Tile;
  using Narrow = typename Tuning<ExecutionSpace, Scalar>::NarrowTile;
  std::size_t const samples = options.tile_samples.value_or(Wide::num_samples);
  if (samples == Wide::num_samples) return std::make_unique<LayerLoop<ExecutionSpace, Wide>>(network, options);
  if (samples == Narrow::num_samples) return std::make_unique<LayerLoop<ExecutionSpace, Narrow>>(network, options);
  throw UsageError(fmt::format("{} has tiles of {} or {} samples at this precision, not {}", to_string(options.backend),
                               +Narrow::num_samples, +Wide::num_samples, samples));
}

/// Chooses scalar type and tile shape.
template <class ExecutionSpace>
std::unique_ptr<Inference> prepare_on(NetworkSource const& network, InferenceOptions const& options) {
  return options.precision == Precision::double_precision ? prepare_with<ExecutionSpace, double>(network, options)
                                                          : prepare_with<ExecutionSpace, float>(network, options);
}

} // namespace varve
