#pragma once

#include <cstddef>
#include <vector>

namespace varve {

/// Consecutive layers whose weights go to the device together.
struct WeightSegment {
  std::size_t first_layer = 0, last_layer = 0; ///< both inclusive
  std::size_t bytes = 0;
  std::size_t place = 0;    ///< on the device: bytes from the beginning of what weights have there
  bool is_resident = false; ///< it has its place to itself and stays; else it shares a buffer
};

/// How weights that do not fit on a device pass through it.
struct WeightSegments {
  std::vector<WeightSegment> segments; ///< all layers in order
  std::size_t num_buffers = 0;         ///< of those that do not stay: the i-th of them is in buffer i % num_buffers
  std::size_t buffer_bytes = 0;
  std::size_t resident_bytes = 0; ///< of the segments that stay, before the buffers

  std::size_t device_bytes() const { return resident_bytes + num_buffers * buffer_bytes; }
};

/// What the plan knows of the memory for weights on a device, in bytes.
struct RoomForWeights {
  std::size_t most = 0;          ///< that they may take
  bool takes_everything = false; ///< they may have all of it; else the panel gets what buffers do not need
};

/// Groups layers, whose weights take these bytes and more than there is room for, into segments. Where all layers are a
/// multiple of some bytes, all places are.
///
/// Buffers are as small as keeps the copies behind the computations: the time to copy a segment and the time to compute
/// it grow together, so a larger one hides nothing more, once copying it takes many times as long as changing from one
/// to the next; and what the panel gets instead lets a layer serve more samples each time it has been copied. Only
/// where the weights have room of their own, as many segments stay as fit beside the buffers, evenly spread, so that
/// the others can be copied meanwhile.
///
/// Throws ResourceError, saying what is needed, if not even two buffers of the largest layer fit.
WeightSegments plan_segments(std::vector<std::size_t> const& layer_bytes, RoomForWeights room);

} // namespace varve
