#pragma once

#include <cstddef>
#include <vector>

namespace varve {

/// Consecutive layers whose weights are copied to the device together.
struct WeightSegment {
  std::size_t first_layer = 0, last_layer = 0; ///< both inclusive
  std::size_t bytes = 0;
  std::size_t place = 0;    ///< byte offset within the device memory for weights
  bool is_resident = false; ///< the segment stays on the device; else it shares a buffer with others
};

/// How weights that do not fit on a device are streamed through it.
struct WeightSegments {
  std::vector<WeightSegment> segments; ///< all layers in order
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

/// Groups layers, whose weights together exceed the room, into segments. layer_bytes: bytes of each layer's weights. If
/// all of them are multiples of an alignment, all places are, too.
///
/// Buffers are only as large as it takes to hide copies behind computation. The time to copy a segment and the time to
/// compute it grow together, so larger segments hide nothing more, once a copy takes many times as long as switching to
/// the next segment; and the panel can use the memory, so that each copied layer serves more samples. Only if the
/// weights have memory of their own (takes_everything), as many segments stay as fit beside the buffers, evenly spread,
/// so that the others can be copied while these are computed.
///
/// Throws ResourceError, saying how much is needed, if two buffers of the largest layer do not fit.
WeightSegments plan_segments(std::vector<std::size_t> const& layer_bytes, RoomForWeights room);

} // namespace varve
