#include "engine/layer_store.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "engine/panel.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace varve {

WeightStream::WeightStream(DeviceMemory const& memory, WeightSegments plan, std::vector<WeightImage> images,
                           MakeImage make_image)
    : memory_(memory),
      plan_(std::move(plan)),
      make_image_(std::move(make_image)),
      device_(memory.allocate("varve::streamed_weights", plan_.device_bytes())),
      loader_(plan_.num_buffers) {
  for (auto const& image : images) image_bytes_.push_back(image.num_bytes);
  for (auto const& segment : plan_.segments) take(segment, images);
  if (!memory.is_host() && num_remade_ > 0) staging_ = on_host(plan_.buffer_bytes);
  copies_ = memory.new_stream();
  for (std::size_t buffer = 0; buffer < plan_.num_buffers; ++buffer) want_next();
}

unsigned char const* WeightStream::address_of(std::size_t piece) const {
  auto const& segment = plan_.segments[segment_of(piece)];
  auto const* place = place_of(segment);
  for (std::size_t before = segment.first_piece; before < piece; ++before) place += image_bytes_[before];
  return reinterpret_cast<unsigned char const*>(place);
}

std::size_t WeightStream::segment_of(std::size_t piece) const {
  auto const next = std::ranges::upper_bound(plan_.segments, piece, {}, &WeightSegment::first_piece);
  return static_cast<std::size_t>(next - plan_.segments.begin()) - 1;
}

void WeightStream::acquire(Stream const& stream, std::size_t segment) {
  if (current_ == segment) return;
  leave(stream);
  if (!plan_.segments[segment].is_resident) {
    Stopwatch const wait_time;
    VARVE_REQUIRE(streamed_[next_to_use_].segment.first_piece == plan_.segments[segment].first_piece,
                  "a segment out of turn");
    loader_.next();
    add_traffic({.wait_seconds = wait_time.seconds()});
  }
  current_ = segment;
}

void WeightStream::finish(Stream const& stream) {
  leave(stream);
  if (next_to_use_ == 0) return; // segment 0 is the next one already
  loader_.forget();
  next_to_use_ = next_to_load_ = 0;
  for (std::size_t buffer = 0; buffer < plan_.num_buffers; ++buffer) want_next();
}

WeightTraffic WeightStream::take_traffic() {
  std::lock_guard const lock(traffic_guard_);
  return std::exchange(traffic_, {});
}

StreamSummary WeightStream::summary() const {
  std::size_t host_bytes = 0;
  for (auto const& segment : streamed_) host_bytes += segment.kept.size();
  return {plan_.segments.size(), plan_.segments.size() - streamed_.size(),
          num_remade_,           plan_.num_buffers,
          plan_.buffer_bytes,    host_bytes + staging_.size()};
}

DeviceBytes WeightStream::on_host(std::size_t bytes) const {
  return memory_.allocate_on_host("varve::streamed_weights", bytes);
}

/// Copies a resident segment to the device; otherwise joins its images in host memory if all of them are kept.
void WeightStream::take(WeightSegment const& segment, std::vector<WeightImage>& images) {
  auto const first = images.begin() + static_cast<std::ptrdiff_t>(segment.first_piece);
  auto const last = images.begin() + static_cast<std::ptrdiff_t>(segment.last_piece) + 1;
  bool const is_kept = std::all_of(first, last, [](WeightImage const& image) { return image.is_kept(); });
  DeviceBytes all;
  if (is_kept || segment.is_resident) all = on_host(segment.bytes);
  auto* place = all.data();
  for (auto image = first; image != last && is_kept; place += image++->num_bytes)
    std::memcpy(place, image->bytes.data(), image->num_bytes);
  for (auto image = first; image != last; ++image) image->bytes = {};
  if (segment.is_resident) {
    if (!is_kept) make_images(segment, all.data());
    copy(*memory_.default_stream(), segment, all.data());
  } else {
    num_remade_ += is_kept ? 0 : 1;
    streamed_.push_back({segment, all});
  }
}

/// Segment i goes to buffer i % num_buffers.
void WeightStream::want_next() {
  auto const number = next_to_load_;
  next_to_load_ = after(number);
  loader_.want([this, number](std::size_t /*buffer*/) {
    if (number < streamed_.size()) load(number);
  });
}

/// Releases the buffer of the present segment for the next load.
void WeightStream::give_back() {
  loader_.give_back();
  want_next();
  next_to_use_ = after(next_to_use_);
}

/// The number after that of a streamed segment. Numbers are padded to a multiple of the number of buffers, so that
/// segment 0 always uses buffer 0.
std::size_t WeightStream::after(std::size_t number) const {
  auto const buffers = plan_.num_buffers;
  return (number + 1) % ((streamed_.size() + buffers - 1) / buffers * buffers);
}

void WeightStream::load(std::size_t number) {
  auto const& [segment, kept] = streamed_[number];
  WeightTraffic traffic;
  std::byte const* source = kept.data();
  if (source == nullptr) {
    Stopwatch const make_time;
    auto* const target = memory_.is_host() ? place_of(segment) : staging_.data();
    make_images(segment, target);
    traffic.make_seconds = make_time.seconds();
    source = target;
  }
  Stopwatch const copy_time;
  if (source != place_of(segment)) {
    copy(*copies_, segment, source);
    traffic.copy_seconds = copy_time.seconds();
    traffic.copied_bytes = segment.bytes;
  }
  add_traffic(traffic);
}

void WeightStream::make_images(WeightSegment const& segment, std::byte* target) const {
  std::vector<std::byte*> places;
  for (std::size_t piece = segment.first_piece; piece <= segment.last_piece; target += image_bytes_[piece++])
    places.push_back(target);
  for_each_on_host_threads(places.size(), [&](std::size_t i) {
    if (image_bytes_[segment.first_piece + i] == 0) return;
    auto const image = make_image_(segment.first_piece + i);
    VARVE_REQUIRE(image.size() == image_bytes_[segment.first_piece + i], "a layer that has changed");
    std::memcpy(places[i], image.data(), image.size());
  });
}

/// Returns when the bytes have arrived.
void WeightStream::copy(Stream const& stream, WeightSegment const& segment, std::byte const* source) const {
  if (memory_.is_host()) {
    std::memcpy(place_of(segment), source, segment.bytes); // a stream's copy would wait for running kernels
  } else {
    stream.copy_to_device(place_of(segment), source, segment.bytes);
    stream.fence("varve: weights have arrived");
  }
}

/// Waits for the launched kernels and releases the buffer of the present segment.
void WeightStream::leave(Stream const& stream) {
  if (current_ != none && !plan_.segments[current_].is_resident) {
    stream.fence("varve: weights are not needed any more");
    give_back();
    for (; next_to_use_ >= streamed_.size(); give_back()) loader_.next();
  }
  current_ = none;
}

void WeightStream::add_traffic(WeightTraffic const& more) {
  std::lock_guard const lock(traffic_guard_);
  traffic_ += more;
}

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
    stored.layer = kernels_.place(layer, encoded, nullptr);
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

StripNeed LayerStore::need_of(std::size_t layer, std::size_t min_strip_bytes) const {
  return {layer,
          bytes_of(layer),
          resident_bytes_ + 2 * min_strip_bytes,
          smallest_batch_bytes(),
          room(),
          limits_.device_weights.has_value()};
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
  std::vector<Piece> pieces;
  std::vector<WeightImage> images;
  std::vector<std::size_t> piece_bytes;
  for_each_piece([&](Stored& stored, Piece const& piece) {
    pieces.push_back(piece);
    piece_bytes.push_back(stored.image.num_bytes);
    images.push_back(std::move(stored.image));
  });
  stream_ = std::make_unique<WeightStream>(
      kernels_.memory(), plan_segments(piece_bytes, room_for_stream()), std::move(images),
      [make = std::move(make_image), pieces](std::size_t piece) { return make(pieces[piece]); });
  std::size_t number = 0;
  for_each_piece([&](Stored& stored, Piece const& /*piece*/) {
    if (stored.layer && stored.layer->can_be_streamed()) stored.layer->move_arrays(stream_->address_of(number));
    ++number;
  });
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
  std::vector<unsigned char> image;
  auto placed = kernels_.place(layer, encoded, &image);
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
