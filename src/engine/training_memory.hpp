#pragma once

#include "engine/training.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Sizes from which the memory of a training is planned.
struct TrainingSizes {
  std::vector<std::size_t> widths; ///< inputs, then the outputs of each layer
  std::size_t leaf = 0;            ///< samples of a leaf
  std::size_t scalar_bytes = 0;
  std::size_t weight_bytes = 0; ///< memory that does not depend on the micro-batch
};

/// Bytes of the activations and errors of one leaf if the activations of every `keep_every`-th layer are kept.
std::size_t bytes_per_leaf(TrainingSizes const& sizes, std::size_t keep_every);

/// Chooses the micro-batch and keep_every, unless the options give them, so that training fits `limit` bytes: tries the
/// whole mini-batch with all activations, then fewer activations as long as that saves memory, then smaller powers of
/// two of leaves. Throws UsageError if the options are invalid, ResourceError if nothing fits.
TrainingPlan plan_training(TrainingSizes const& sizes, TrainingOptions const& options, std::size_t limit);

} // namespace varve
