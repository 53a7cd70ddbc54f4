#include "plan/weight_segments.hpp"

#include "plan/sentences.hpp"

#include <algorithm>
#include <numeric>

namespace varve {
namespace {

constexpr std::size_t most_buffers = 3; ///< one in use, one being filled, one ahead for segments that compute fast
constexpr std::size_t least_bytes = std::size_t(16) << 20U;  ///< smallest buffer if memory allows: 0.3 ms over PCIe 5
constexpr std::size_t enough_bytes = std::size_t(64) << 20U; ///< largest buffer, unless a layer is larger

/// Groups layers, in order, into segments of about `target` bytes and at most `most` bytes.
std::vector<WeightSegment> group_layers(std::vector<std::size_t> const& layer_bytes, std::size_t target,
                                        std::size_t most) {
  std::vector<WeightSegment> segments;
  for (std::size_t layer = 0; layer < layer_bytes.size(); ++layer) {
    std::size_t const bytes = layer_bytes[layer];
    bool const is_full =
        segments.empty() || segments.back().bytes + bytes / 2 > target || segments.back().bytes + bytes > most;
    if (is_full) segments.push_back({.first_layer = layer});
    segments.back().last_layer = layer;
    segments.back().bytes += bytes;
  }
  return segments;
}

/// Makes segments resident, evenly spread, up to `room` bytes. Returns the bytes that they take.
std::size_t let_stay(std::vector<WeightSegment>& segments, std::size_t total, std::size_t room) {
  std::size_t taken = 0;
  double due = 0.0;
  for (auto& segment : segments) {
    due += static_cast<double>(segment.bytes) / static_cast<double>(total) * static_cast<double>(room);
    segment.is_resident = static_cast<double>(taken + segment.bytes) <= due;
    if (!segment.is_resident) continue;
    segment.place = taken;
    taken += segment.bytes;
  }
  return taken;
}

} // namespace

WeightSegments plan_segments(std::vector<std::size_t> const& layer_bytes, RoomForWeights room) {
  auto const largest = std::ranges::max_element(layer_bytes);
  if (2 * *largest > room.most) {
    weights_exceed_buffers(static_cast<std::size_t>(largest - layer_bytes.begin()), *largest, room.most);
  }
  std::size_t const total = std::accumulate(layer_bytes.begin(), layer_bytes.end(), std::size_t(0));
  std::size_t const wanted = room.takes_everything ? room.most : room.most / 4;
  WeightSegments plan;
  plan.buffer_bytes = std::max(*largest, std::min(wanted / 4, std::clamp(wanted / 16, least_bytes, enough_bytes)));
  plan.num_buffers = std::clamp<std::size_t>(wanted / plan.buffer_bytes, 2, most_buffers);
  std::size_t const count = (total + plan.buffer_bytes - 1) / plan.buffer_bytes;
  plan.segments = group_layers(layer_bytes, (total + count - 1) / count, plan.buffer_bytes);
  // Buffers of the size of the largest segment, a sum of whole layers, keep the alignment of layers.
  plan.buffer_bytes = std::ranges::max_element(plan.segments, {}, &WeightSegment::bytes)->bytes;
  std::size_t const left = room.most - plan.num_buffers * plan.buffer_bytes;
  if (room.takes_everything) plan.resident_bytes = let_stay(plan.segments, total, left);
  std::size_t buffer = 0;
  for (auto& segment : plan.segments) {
    if (segment.is_resident) continue;
    segment.place = plan.resident_bytes + buffer * plan.buffer_bytes;
    buffer = (buffer + 1) % plan.num_buffers;
  }
  return plan;
}

} // namespace varve
