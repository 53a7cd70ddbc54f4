#pragma once

#include "engine/training.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// What memory a training is planned by.
struct TrainingSizes {
  std::vector<std::size_t> widths; ///< inputs, then the outputs of each layer
  std::size_t leaf = 0;            ///< samples
  std::size_t scalar_bytes = 0;
  std::size_t weight_bytes = 0; ///< whatever does not depend on the micro-batch
};

/// Bytes of the activations and errors of one leaf if the activations of every `keep_every`-th layer are kept.
std::size_t bytes_per_leaf(TrainingSizes const& sizes, std::size_t keep_every);

/// Chooses what has room within `limit` bytes and was not asked for: first the whole mini-batch with all activations;
/// then fewer activations, as long as that saves memory; then half the micro-batch, and so on. Throws UsageError if
/// what was asked for is invalid, ResourceError if nothing has room.
TrainingPlan plan_training(TrainingSizes const& sizes, TrainingOptions const& options, std::size_t limit);

} // namespace varve
