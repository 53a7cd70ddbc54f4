#pragma once

#include "engine/training.hpp"
#include "network/network.hpp"
#include "plan/memory.hpp"

#include <cstddef>
#include <vector>

namespace varve {

inline std::size_t num_ranks(TrainingOptions const& options) {
  return options.exchange ? options.exchange->num_ranks() : 1;
}

/// The format of each layer: options.format if given, else dense where measured rates of the backend make the dense
/// kernels faster than those of edges. Layers without edges or with more than 2^32 - 1 places are never dense. Throws
/// UsageError if options.format is neither dense nor csr.
std::vector<TrainedFormat> choose_trained_formats(Network const& network, TrainingOptions const& options);

/// Size of the strips in which layers may be streamed (engine/trained_layers.hpp), and the device memory of streaming
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

/// Memory limits of the search for the largest gradients among free places (PatternKind::rigl), which visits the places
/// block by block.
struct GrowthLimits {
  std::size_t bytes_per_sum = 0; ///< memory for the gradient of one place: partial sums, total and candidate
  std::size_t max_sums = 0;      ///< most gradients in memory at a time
};

/// The limits for mini-batches of num_leaves leaves in `bytes` bytes; at least one output of the widest layer fits.
GrowthLimits growth_limits(Network const& network, std::size_t num_leaves, std::size_t scalar_bytes, std::size_t bytes);

} // namespace varve
