#pragma once

#include "core/backend.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace varve {

/// Memory limits that the user sets, in bytes.
struct MemoryRequest {
  /// With a GPU: host memory for encoded weights that are streamed to it. On CPU backends: limit of all memory; the
  /// part beyond device_memory_limit is for encoded weights.
  std::optional<std::size_t> memory_limit;
  std::optional<std::size_t> device_memory_limit; ///< device memory for weights, panel and samples together
  std::optional<std::size_t> device_weight_limit; ///< the part of device_memory_limit for weights
};

/// Memory limits in bytes, from the request and defaults.
struct MemoryLimits {
  std::size_t device = 0;                    ///< device memory for weights, panel and samples together
  std::optional<std::size_t> device_weights; ///< the part of `device` for weights, if the request has one
  std::size_t host_weights = 0;              ///< host memory for encoded weights that are streamed to the device
  std::size_t encoding = 0;                  ///< host memory in which layers are encoded before they are placed
};

/// The limits of a request. Defaults with a GPU: nine tenths of the available device memory, and half of the available
/// host memory. On CPU backends memory_limit, by default nine tenths of the available memory, is for both; host_weights
/// is the part of it beyond device_memory_limit. Layers are encoded within memory_limit, by default nine tenths of the
/// available host memory; with a GPU, within at least 64 MiB.
MemoryLimits memory_limits(MemoryRequest const& request, Backend backend);

/// Most bytes of weights on the device: the rest beside the smallest batch, and at most device_weights.
std::size_t room_for_weights(MemoryLimits const& limits, std::size_t smallest_batch_bytes);

/// The quantities that determine the size of a batch.
struct BatchRequest {
  std::size_t num_samples = 0;       ///< samples of the input
  std::optional<std::size_t> asked;  ///< batch that the user requests
  std::optional<std::size_t> enough; ///< samples beyond which a larger batch is not faster
  std::size_t weight_bytes = 0;      ///< device memory of weights
  std::size_t step = 1;              ///< memory is allocated for multiples of this many samples
  std::size_t max_at_all = 0;        ///< limit of the panel's indices
};

/// Samples of a batch: all samples of the input, or the requested number, or as many as fit beside the weights.
/// bytes_of(samples): memory of a batch. Throws ResourceError, naming the needed memory, if the requested batch, or the
/// smallest one, does not fit.
std::size_t choose_batch(BatchRequest const& request, std::size_t device_limit,
                         std::function<std::size_t(std::size_t)> const& bytes_of);

/// Consecutive pieces of the weights, which are copied to the device together. A piece is a layer or a strip.
struct WeightSegment {
  std::size_t first_piece = 0, last_piece = 0; ///< both inclusive
  std::size_t bytes = 0;
  std::size_t place = 0;    ///< byte offset within the device memory for weights
  bool is_resident = false; ///< the segment stays on the device; else it shares a buffer with others
};

/// How weights that do not fit a device are streamed through it.
struct WeightSegments {
  std::vector<WeightSegment> segments; ///< all pieces in order
  std::size_t num_buffers = 0;         ///< the i-th segment that is not resident uses buffer i % num_buffers
  std::size_t buffer_bytes = 0;
  std::size_t resident_bytes = 0; ///< bytes of the resident segments, which precede the buffers

  std::size_t device_bytes() const { return resident_bytes + num_buffers * buffer_bytes; }
};

/// The device memory for weights, in bytes.
struct RoomForWeights {
  std::size_t most = 0;          ///< limit
  bool takes_everything = false; ///< true: weights use all of it; false: the panel gets the rest beside the buffers
};

/// Most bytes of a strip of a layer, if the layer is larger than half of the room: the usual size of a buffer, but at
/// least enough that a kernel takes longer than its launch, if two such buffers fit.
std::size_t max_strip_bytes(RoomForWeights room);

/// Groups pieces of weights, which do not all fit the room, into segments. piece_bytes: bytes of each piece. If all of
/// them are multiples of an alignment, all places are, too.
///
/// Buffers are only as large as needed to hide copies behind computation. The times to copy and to compute a segment
/// grow together, so larger segments hide nothing more once a copy takes many times as long as a change of segments.
/// The panel can use the saved memory, so that each copied piece serves more samples. Only if the weights have their
/// own memory (takes_everything), as many segments are resident as fit beside the buffers, evenly spread, so that
/// others can be copied while these are computed.
///
/// Throws ResourceError, naming the needed memory, if two buffers of the largest piece, a layer, do not fit.
WeightSegments plan_segments(std::vector<std::size_t> const& piece_bytes, RoomForWeights room);

/// Consecutive outputs of a layer, with all their edges. A layer that does not fit a device is streamed in strips, one
/// after another; each output is computed as in the whole layer.
struct OutputStrip {
  std::size_t first_output = 0;
  std::size_t num_outputs = 0;
};

/// Properties that determine the bytes of a strip on a device.
struct StripShape {
  std::size_t block_outputs = 1;     ///< outputs that are stored together; only the last strip may end within a block
  std::size_t dense_block_bytes = 0; ///< dense layers: bytes of the weights of a block; 0: edges are stored
  std::size_t edge_bytes = 0;        ///< bytes of an edge, unless the layer is dense
};

/// Upper bound of the bytes of the largest strip on a device if strips are as small as possible.
std::size_t min_strip_bytes(SparseMatrix const& matrix, StripShape const& shape);

/// Cuts a layer into strips of at most `max_bytes` bytes on a device, which must be at least min_strip_bytes(). All
/// strips but the last are as large as that allows.
std::vector<OutputStrip> cut_into_strips(SparseMatrix const& matrix, StripShape const& shape, std::size_t max_bytes);

/// The outputs of a strip as a separate layer.
Layer layer_of(Layer const& whole, OutputStrip const& strip);

} // namespace varve
