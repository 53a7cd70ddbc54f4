#include "plan/weight_segments.hpp"

#include "plan/sentences.hpp"

#include <algorithm>
#include <numeric>

namespace varve {
namespace {

constexpr std::size_t most_buffers = 3; ///< one in use, one being filled, one ahead for segments that compute fast
constexpr std::size_t least_bytes = std::size_t(16) << 20U;  ///< smallest buffer if memory allows: 0.3 ms over PCIe 5
constexpr std::size_t enough_bytes = std::size_t(64) << 20U; ///< largest buffer, unless a layer is larger
constexpr std::size_t least_strip = std::size_t(1) << 20U;   ///< strips get no smaller than that if memory allows

/// Groups pieces, in order, into segments of about `target` bytes and at most `most` bytes.
std::vector<WeightSegment> group_pieces(std::vector<std::size_t> const& piece_bytes, std::size_t target,
                                        std::size_t most) {
  std::vector<WeightSegment> segments;
  for (std::size_t piece = 0; piece < piece_bytes.size(); ++piece) {
    std::size_t const bytes = piece_bytes[piece];
    bool const is_full =
        segments.empty() || segments.back().bytes + bytes / 2 > target || segments.back().bytes + bytes > most;
    if (is_full) segments.push_back({.first_piece = piece});
    segments.back().last_piece = piece;
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

/// Bytes for buffers and for segments that stay.
std::size_t wanted_room(RoomForWeights room) { return room.takes_everything ? room.most : room.most / 4; }

/// Bytes of a buffer that hide copies behind computation.
std::size_t usual_buffer(RoomForWeights room) {
  std::size_t const wanted = wanted_room(room);
  return std::min(wanted / 4, std::clamp(wanted / 16, least_bytes, enough_bytes));
}

} // namespace

std::size_t most_strip_bytes(RoomForWeights room) {
  return std::min(room.most / 2, std::max(usual_buffer(room), least_strip));
}

WeightSegments plan_segments(std::vector<std::size_t> const& piece_bytes, RoomForWeights room) {
  auto const largest = std::ranges::max_element(piece_bytes);
  if (2 * *largest > room.most) {
    weights_exceed_buffers(static_cast<std::size_t>(largest - piece_bytes.begin()), *largest, room.most);
  }
  std::size_t const total = std::accumulate(piece_bytes.begin(), piece_bytes.end(), std::size_t(0));
  WeightSegments plan;
  plan.buffer_bytes = std::max(*largest, usual_buffer(room));
  plan.num_buffers = std::clamp<std::size_t>(wanted_room(room) / plan.buffer_bytes, 2, most_buffers);
  std::size_t const count = (total + plan.buffer_bytes - 1) / plan.buffer_bytes;
  plan.segments = group_pieces(piece_bytes, (total + count - 1) / count, plan.buffer_bytes);
  // Buffers of the size of the largest segment, a sum of whole pieces, keep the alignment of pieces.
  plan.buffer_bytes = std::ranges::max_element(plan.segments, {}, &WeightSegment::bytes)->bytes;
  std::size_t const left = room.most - plan.num_buffers * plan.buffer_bytes;
  // Strips may be smaller than their layer was, and so may fit all; but one segment must pass through the buffers.
  if (room.takes_everything) plan.resident_bytes = let_stay(plan.segments, total, std::min(left, total - 1));
  std::size_t buffer = 0;
  for (auto& segment : plan.segments) {
    if (segment.is_resident) continue;
    segment.place = plan.resident_bytes + buffer * plan.buffer_bytes;
    buffer = (buffer + 1) % plan.num_buffers;
  }
  return plan;
}

} // namespace varve
