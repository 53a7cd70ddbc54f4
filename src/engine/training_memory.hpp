#pragma once

#include "engine/training.hpp"
#include "plan/memory.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Size of the strips in which layers may be streamed (engine/layer_strips.hpp), and the device memory of streaming
/// that does not depend on the micro-batch.
struct StreamedSize {
  std::size_t strip_size = kWholeLayers;
  std::size_t bytes = 0;
};

/// Sizes from which the memory of a training is planned.
struct TrainingSizes {
  std::vector<std::size_t> widths; ///< inputs, then the outputs of each layer
  std::size_t leaf = 0;            ///< samples of a leaf
  std::size_t scalar_bytes = 0;
  std::size_t weight_bytes = 0;       ///< device memory that does not depend on the micro-batch
  std::vector<StreamedSize> streamed; ///< weight_bytes if weights are streamed: whole layers first, then smaller strips
  std::size_t streamed_host_bytes = 0; ///< host memory for weights, gradients and moments if they are streamed
  std::size_t group_bytes = 0;         ///< device memory for groups of layers (LeafLevels), if there is room
};

/// Sizes of strips to choose from. largest: weights and rows of the largest layer; widest: most edges of a row. First
/// whole layers, then half of the previous size, down to a 256th of the largest layer or 2^18, whichever is less, as
/// long as a strip has room for the widest row.
std::vector<std::size_t> strip_sizes(std::size_t largest, std::size_t widest);

/// Bytes of the activations and errors of one leaf if the activations of every `keep_every`-th layer are kept.
std::size_t bytes_per_leaf(TrainingSizes const& sizes, std::size_t keep_every);

/// Chooses the micro-batch and keep_every, unless the options give them, so that training fits the device: tries the
/// whole mini-batch with all activations, then fewer activations as long as that saves memory, then smaller powers of
/// two of leaves. Remaining memory may be used for groups of layers. If nothing fits, weights are streamed and the same
/// is tried again, each time with whole layers and then with smaller strips; limits.host_weights is the host memory for
/// that. Throws UsageError if the options are invalid, ResourceError if nothing fits.
TrainingPlan plan_training(TrainingSizes const& sizes, TrainingOptions const& options, MemoryLimits const& limits);

} // namespace varve
