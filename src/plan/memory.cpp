#include "plan/memory.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <numeric>

namespace varve {
namespace {

/// Least limit in bytes for encoding layers for a GPU, even if the host may keep less.
constexpr std::size_t min_encoding = std::size_t(64) << 20U;

} // namespace

MemoryLimits memory_limits(MemoryRequest const& request, Backend backend) {
  MemoryLimits limits;
  limits.device_weights = request.device_weight_limit;
  if (has_own_memory(backend)) {
    limits.device = request.device_memory_limit.value_or(available_memory(backend) / 10 * 9);
    std::size_t const host = available_memory(Backend::serial);
    limits.host_weights = request.memory_limit.value_or(host / 2);
    limits.encoding = std::max(request.memory_limit.value_or(host / 10 * 9), min_encoding);
    return limits;
  }
  std::size_t const both = request.memory_limit.value_or(available_memory(backend) / 10 * 9);
  limits.device = std::min(both, request.device_memory_limit.value_or(both));
  limits.host_weights = both - limits.device;
  limits.encoding = both;
  return limits;
}

std::size_t room_for_weights(MemoryLimits const& limits, std::size_t smallest_batch_bytes) {
  std::size_t const room = limits.device - std::min(limits.device, smallest_batch_bytes);
  return std::min(room, limits.device_weights.value_or(room));
}

std::size_t choose_batch(BatchRequest const& request, std::size_t device_limit,
                         std::function<std::size_t(std::size_t)> const& bytes_of) {
  std::size_t const step = request.step;
  std::size_t const room = device_limit - std::min(device_limit, request.weight_bytes);
  std::size_t const most = std::min(room / bytes_of(step), request.max_at_all / step) * step;
  std::size_t const usual = std::max<std::size_t>(1, std::min(most, request.enough.value_or(most)));
  std::size_t const wanted = std::min(std::max<std::size_t>(request.num_samples, 1), request.asked.value_or(usual));
  if (most == 0 || wanted > most)
    batch_exceeds_memory(wanted, bytes_of(wanted), request.weight_bytes, device_limit, most);
  return std::max<std::size_t>(1, std::min(request.num_samples, wanted));
}

namespace {

constexpr std::size_t max_buffers = 3; ///< one in use, one being filled, one ahead for segments that compute fast
constexpr std::size_t min_bytes = std::size_t(16) << 20U;    ///< smallest buffer, if memory allows: 0.3 ms over PCIe 5
constexpr std::size_t enough_bytes = std::size_t(64) << 20U; ///< largest buffer, unless a layer is larger
constexpr std::size_t min_strip = std::size_t(1) << 20U;     ///< smallest strip, if memory allows

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

/// Makes segments resident, evenly spread, up to `room` bytes. Returns their bytes.
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

/// Bytes for buffers and for resident segments.
std::size_t wanted_room(RoomForWeights room) { return room.takes_everything ? room.most : room.most / 4; }

/// Bytes of a buffer that is large enough to hide copies behind computation.
std::size_t usual_buffer(RoomForWeights room) {
  std::size_t const wanted = wanted_room(room);
  return std::min(wanted / 4, std::clamp(wanted / 16, min_bytes, enough_bytes));
}

} // namespace

std::size_t max_strip_bytes(RoomForWeights room) {
  return std::min(room.most / 2, std::max(usual_buffer(room), min_strip));
}

WeightSegments plan_segments(std::vector<std::size_t> const& piece_bytes, RoomForWeights room) {
  auto const largest = std::ranges::max_element(piece_bytes);
  if (2 * *largest > room.most) {
    fail<ResourceError>(
        "the weights of layer {} need {}, and twice as much is needed to stream the weights of all layers to the "
        "device, but only {} may be used for weights; {} or --memory weights, or take a device with more memory",
        largest - piece_bytes.begin(), in_gibibytes(*largest), in_gibibytes(room.most), raise_limit);
  }
  std::size_t const total = std::accumulate(piece_bytes.begin(), piece_bytes.end(), std::size_t(0));
  WeightSegments plan;
  plan.buffer_bytes = std::max(*largest, usual_buffer(room));
  plan.num_buffers = std::clamp<std::size_t>(wanted_room(room) / plan.buffer_bytes, 2, max_buffers);
  std::size_t const count = (total + plan.buffer_bytes - 1) / plan.buffer_bytes;
  plan.segments = group_pieces(piece_bytes, (total + count - 1) / count, plan.buffer_bytes);
  // Buffers with the size of the largest segment, a sum of whole pieces, keep the alignment of pieces.
  plan.buffer_bytes = std::ranges::max_element(plan.segments, {}, &WeightSegment::bytes)->bytes;
  std::size_t const left = room.most - plan.num_buffers * plan.buffer_bytes;
  // Strips may be smaller than their layer was, so all may fit; but at least one segment must use the buffers.
  if (room.takes_everything) plan.resident_bytes = let_stay(plan.segments, total, std::min(left, total - 1));
  std::size_t buffer = 0;
  for (auto& segment : plan.segments) {
    if (segment.is_resident) continue;
    segment.place = plan.resident_bytes + buffer * plan.buffer_bytes;
    buffer = (buffer + 1) % plan.num_buffers;
  }
  return plan;
}

namespace {

/// Upper bound of the bytes of a strip as an image (formats/device_layer.hpp).
std::size_t bytes_of(StripShape const& shape, std::size_t num_outputs, EdgeOffset num_edges) {
  constexpr std::size_t alignment = 256; // alignment of each of at most five arrays
  constexpr std::size_t num_arrays = 5;
  constexpr std::size_t padding = 16; // least number of outputs for which biases and neurons are stored
  std::size_t const parameters =
      (num_outputs + std::max(padding, shape.block_outputs)) * (sizeof(double) + sizeof(NeuronIndex));
  std::size_t const blocks = (num_outputs + shape.block_outputs - 1) / shape.block_outputs;
  std::size_t const weights = shape.dense_block_bytes > 0
                                  ? blocks * shape.dense_block_bytes
                                  : (num_outputs + 1) * sizeof(EdgeOffset) + num_edges * shape.edge_bytes;
  return num_arrays * alignment + parameters + weights;
}

} // namespace

std::size_t min_strip_bytes(SparseMatrix const& matrix, StripShape const& shape) {
  std::size_t most = 0;
  for (std::size_t first = 0; first < matrix.num_rows; first += shape.block_outputs) {
    std::size_t const last = std::min(first + shape.block_outputs, matrix.num_rows);
    most = std::max(most, bytes_of(shape, last - first, matrix.row_pointers[last] - matrix.row_pointers[first]));
  }
  return most;
}

std::vector<OutputStrip> cut_into_strips(SparseMatrix const& matrix, StripShape const& shape, std::size_t max_bytes) {
  std::vector<OutputStrip> strips;
  for (std::size_t first = 0; first < matrix.num_rows; first += shape.block_outputs) {
    std::size_t const last = std::min(first + shape.block_outputs, matrix.num_rows);
    auto const bytes_up_to_here = [&](std::size_t begin) {
      return bytes_of(shape, last - begin, matrix.row_pointers[last] - matrix.row_pointers[begin]);
    };
    if (strips.empty() || bytes_up_to_here(strips.back().first_output) > max_bytes) strips.push_back({first, 0});
    VARVE_REQUIRE(bytes_up_to_here(strips.back().first_output) <= max_bytes, "a strip larger than its room");
    strips.back().num_outputs = last - strips.back().first_output;
  }
  return strips;
}

Layer layer_of(Layer const& whole, OutputStrip const& strip) {
  std::size_t const last = strip.first_output + strip.num_outputs;
  Layer layer;
  layer.weights = rows_of(whole.weights, strip.first_output, last);
  layer.bias = whole.bias;
  layer.activation = whole.activation;
  if (whole.bias.size() > 1) {
    layer.bias.assign(whole.bias.begin() + static_cast<std::ptrdiff_t>(strip.first_output),
                      whole.bias.begin() + static_cast<std::ptrdiff_t>(last));
  }
  if (layer.bias.empty()) layer.bias = {0.0}; // a part without outputs; valid layers have a bias
  return layer;
}

} // namespace varve
