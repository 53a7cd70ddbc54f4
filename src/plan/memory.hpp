#pragma once

#include "core/backend.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace varve {

/// Memory limits that the user asks for, in bytes.
struct MemoryRequest {
  /// With a GPU: host memory for encoded weights that are streamed to it. On CPU backends: the limit for everything; of
  /// this, what device_memory_limit leaves is for encoded weights.
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
/// is what device_memory_limit leaves of it. Layers are encoded within memory_limit, by default nine tenths of the
/// available host memory, for a GPU at least within 64 MiB.
MemoryLimits memory_limits(MemoryRequest const& request, Backend backend);

/// Bytes that weights may take on the device: what the smallest batch leaves, and at most device_weights.
std::size_t room_for_weights(MemoryLimits const& limits, std::size_t smallest_batch_bytes);

/// The quantities that decide the size of a batch.
struct BatchRequest {
  std::size_t num_samples = 0;       ///< samples of the input
  std::optional<std::size_t> asked;  ///< batch that the user asks for
  std::optional<std::size_t> enough; ///< samples beyond which a larger batch is not faster
  std::size_t weight_bytes = 0;      ///< device memory of weights
  std::size_t step = 1;              ///< memory is allocated for multiples of so many samples
  std::size_t most_at_all = 0;       ///< limit of the panel's indices
};

/// Samples of a batch: all samples of the input, or as many as were asked for, or as many as fit beside the weights.
/// bytes_of(samples): memory of a batch. Throws ResourceError, saying how much is needed, if the batch that was asked
/// for, or the smallest one, does not fit.
std::size_t choose_batch(BatchRequest const& request, std::size_t device_limit,
                         std::function<std::size_t(std::size_t)> const& bytes_of);

/// Consecutive pieces of the weights, which are copied to the device together. A piece is a layer, or a strip of one.
struct WeightSegment {
  std::size_t first_piece = 0, last_piece = 0; ///< both inclusive
  std::size_t bytes = 0;
  std::size_t place = 0;    ///< byte offset within the device memory for weights
  bool is_resident = false; ///< the segment stays on the device; else it shares a buffer with others
};

/// How weights that do not fit on a device are streamed through it.
struct WeightSegments {
  std::vector<WeightSegment> segments; ///< all pieces in order
  std::size_t num_buffers = 0;         ///< the i-th segment that does not stay uses buffer i % num_buffers
  std::size_t buffer_bytes = 0;
  std::size_t resident_bytes = 0; ///< bytes of the segments that stay, which lie before the buffers

  std::size_t device_bytes() const { return resident_bytes + num_buffers * buffer_bytes; }
};

/// The device memory for weights, in bytes.
struct RoomForWeights {
  std::size_t most = 0;          ///< limit
  bool takes_everything = false; ///< true: weights use all of it; false: the panel gets what the buffers do not need
};

/// Bytes that a strip of a layer may take, if the layer is larger than half of the room: as many as a buffer has if no
/// layer needs a larger one, but so many, where two buffers of them fit, that a kernel takes longer than its launch.
std::size_t most_strip_bytes(RoomForWeights room);

/// Groups pieces of weights, which do not all fit the room, into segments. piece_bytes: bytes of each piece. If all of
/// them are multiples of an alignment, all places are, too.
///
/// Buffers are only as large as it takes to hide copies behind computation. The time to copy a segment and the time to
/// compute it grow together, so larger segments hide nothing more, once a copy takes many times as long as switching to
/// the next segment; and the panel can use the memory, so that each copied piece serves more samples. Only if the
/// weights have memory of their own (takes_everything), as many segments stay as fit beside the buffers, evenly spread,
/// so that the others can be copied while these are computed.
///
/// Throws ResourceError, saying how much is needed, if two buffers of the largest piece, a layer, do not fit.
WeightSegments plan_segments(std::vector<std::size_t> const& piece_bytes, RoomForWeights room);

/// Consecutive outputs of a layer, with all their edges. A layer that does not fit on a device passes through it in
/// strips, one after another; each output is computed as in the whole layer.
struct OutputStrip {
  std::size_t first_output = 0;
  std::size_t num_outputs = 0;
};

/// What decides the bytes of a strip on a device.
struct StripShape {
  std::size_t block_outputs = 1;     ///< outputs that are stored together; only the last strip may end within a block
  std::size_t dense_block_bytes = 0; ///< dense layers: bytes of the weights of a block; 0: edges are stored
  std::size_t edge_bytes = 0;        ///< bytes of an edge, unless the layer is dense
};

/// Upper bound of the bytes that the largest strip takes on a device if strips are as small as can be.
std::size_t least_strip_bytes(SparseMatrix const& matrix, StripShape const& shape);

/// Cuts a layer into strips that take at most `most_bytes` on a device, which must not be less than
/// least_strip_bytes(); all but the last are as large as that allows.
std::vector<OutputStrip> cut_into_strips(SparseMatrix const& matrix, StripShape const& shape, std::size_t most_bytes);

/// The outputs of a strip as a layer of their own.
Layer layer_of(Layer const& whole, OutputStrip const& strip);

} // namespace varve
