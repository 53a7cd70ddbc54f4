#include "engine/layer_store.hpp"

#include "core/error.hpp"
#include "engine/panel.hpp"
#include "plan/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace varve {

DeviceLayer const* LayerStore::layer(std::size_t layer, std::size_t strip) const {
  auto const& strips = layers_[layer].strips;
  return strips.empty() ? layers_[layer].whole.layer.get() : strips[strip].layer.get();
}

void LayerStore::add(std::size_t num_neurons) {
  layers_.emplace_back();
  max_neurons_ = std::max(max_neurons_, num_neurons);
}

void LayerStore::place(Layer const& layer, EncodedLayer const& encoded) {
  make_room(encoded.bytes());
  Stored& stored = layers_.back().whole;
  if (is_streamed_) {
    stored = in_image(layer, encoded, true);
  } else {
    stored.layer = kernels_.place(layer, encoded);
  }
  bytes_ += stored.layer->bytes();
}

void LayerStore::place(std::span<Layer const> run, ConeRun const& cones) {
  auto& stored = layers_.back().whole.layer;
  stored = kernels_.place_cones(run, cones);
  bytes_ += stored->bytes();
  resident_bytes_ += stored->bytes();
}

bool LayerStore::place_first(Layer const& layer, FirstLayerChoice const& choice) {
  auto first = kernels_.place_first(layer, choice);
  std::size_t const more = first->bytes();
  if (is_streamed_ || bytes_ + more > room()) return false;
  (choice.way == FirstLayerInput::entries ? entries_ : first_) = std::move(first);
  bytes_ += more;
  return true;
}

std::vector<std::size_t> LayerStore::layers_too_large() {
  make_room(0);
  std::vector<std::size_t> numbers;
  for (std::size_t number = 0; is_streamed_ && number < layers_.size(); ++number) {
    if (2 * bytes_of(number) > room_for_stream().most) numbers.push_back(number);
  }
  return numbers;
}

RoomForWeights LayerStore::room_for_stream() const {
  return {room() - std::min(room(), resident_bytes_), limits_.device_weights.has_value()};
}

void LayerStore::refuse_strips(std::size_t layer, std::size_t min_strip_bytes) const {
  std::size_t const weights = resident_bytes_ + 2 * min_strip_bytes;
  std::size_t const batch = smallest_batch_bytes();
  auto remedy = fmt::format("--memory device={}", memory_option_for(batch + weights));
  if (limits_.device_weights) remedy += fmt::format(",weights={}", memory_option_for(weights));
  throw ResourceError(fmt::format(
      "the weights of layer {} need {}; streamed in the smallest strips of outputs, weights need {} beside {} for the "
      "smallest batch, but only {} may be used for weights; {} suffices (without a device of its own: also "
      "--memory host of that size), or take a device with more memory",
      layer, in_gibibytes(bytes_of(layer)), in_gibibytes(weights), in_gibibytes(batch), in_gibibytes(room()), remedy));
}

void LayerStore::place_strip(std::size_t number, Layer const& strip, EncodedLayer const& encoded) {
  auto& [whole, strips] = layers_[number];
  kept_bytes_ -= whole.image.bytes.size();
  whole = {};
  strips.push_back(in_image(strip, encoded, false));
}

void LayerStore::finish(MakeImage make_image) {
  make_room(0);
  if (!is_streamed_) return;
  std::vector<WeightImage> images;
  std::vector<std::size_t> piece_bytes;
  for_each_piece([&](Stored& stored, Piece const& piece) {
    pieces_.push_back(piece);
    piece_bytes.push_back(stored.image.num_bytes);
    images.push_back(std::move(stored.image));
  });
  stream_ = std::make_unique<WeightStream>(
      kernels_.memory(), plan_segments(piece_bytes, room_for_stream()), std::move(images),
      [make = std::move(make_image), pieces = pieces_](std::size_t piece) { return make(pieces[piece]); });
  std::size_t number = 0;
  for_each_piece([&](Stored& stored, Piece const& /*piece*/) {
    if (stored.layer && stored.layer->can_be_streamed()) stored.layer->move_arrays(stream_->address_of(number));
    ++number;
  });
}

std::size_t LayerStore::segment_of(Piece const& piece) const {
  auto const before = [](Piece const& one, Piece const& other) {
    return std::pair(one.layer, one.strip) < std::pair(other.layer, other.strip);
  };
  auto const found = std::ranges::lower_bound(pieces_, piece, before);
  return stream_->segment_of(static_cast<std::size_t>(found - pieces_.begin()));
}

/// Calls visit(stored, piece) for each layer, or each of its strips if it was cut, in order.
template <class Visit>
void LayerStore::for_each_piece(Visit const& visit) {
  for (std::size_t number = 0; number < layers_.size(); ++number) {
    auto& [whole, strips] = layers_[number];
    if (strips.empty()) visit(whole, Piece{number, 0});
    for (std::size_t strip = 0; strip < strips.size(); ++strip) visit(strips[strip], Piece{number, strip});
  }
}

/// Bytes for weights if the smallest batch must fit as well.
std::size_t LayerStore::room() const { return room_for_weights(limits_, smallest_batch_bytes()); }

/// Bytes of the smallest batch: two buffers of its activations, and twice as much for two batches of samples and its
/// other arrays.
std::size_t LayerStore::smallest_batch_bytes() const {
  std::size_t const sample_bytes = 6 * max_neurons_ * kernels_.scalar_bytes() + 128;
  return Panel::slot_granularity * sample_bytes;
}

/// If `bytes` more bytes of weights do not fit, drops the copies of layer 0. If they still do not fit, starts to
/// stream: moves all layers into images on the host, to which place() adds from then on.
void LayerStore::make_room(std::size_t bytes) {
  if (is_streamed_ || bytes_ + bytes <= room()) return;
  for (auto* const copy : {&first_, &entries_}) {
    if (*copy) bytes_ -= (*copy)->bytes();
    copy->reset();
  }
  if (bytes_ + bytes <= room()) return;
  is_streamed_ = true;
  for (auto& layer : layers_) {
    auto& [stored, image] = layer.whole;
    if (stored && stored->can_be_streamed()) image = keep(stored->to_image(), true);
  }
}

/// Encodes a layer or a strip in an image.
LayerStore::Stored LayerStore::in_image(Layer const& layer, EncodedLayer const& encoded, bool may_be_cut) {
  auto [placed, image] = kernels_.place_in_image(layer, encoded);
  return {std::move(placed), keep(std::move(image), may_be_cut)};
}

/// Keeps an image if the host has room for it. may_be_cut: the image is a whole layer; strips will replace it if the
/// room, which only shrinks, is too small for two of it.
WeightImage LayerStore::keep(std::vector<unsigned char> bytes, bool may_be_cut) {
  WeightImage image{bytes.size(), {}};
  if (may_be_cut && 2 * image.num_bytes > room()) return image;
  if (kept_bytes_ + image.num_bytes > limits_.host_weights) return image;
  kept_bytes_ += image.num_bytes;
  image.bytes = std::move(bytes);
  return image;
}

} // namespace varve
