#pragma once

#include <cstddef>
#include <vector>

namespace varve {

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

} // namespace varve
