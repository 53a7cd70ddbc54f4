#include "engine/weight_stream.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/stopwatch.hpp"

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
    VARVE_REQUIRE(number_of(segment) == next_to_use_, "a segment out of turn");
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

/// The index of a segment among the streamed ones.
std::size_t WeightStream::number_of(std::size_t segment) const {
  auto const first_piece = plan_.segments[segment].first_piece;
  auto const found = std::ranges::lower_bound(streamed_, first_piece, {},
                                              [](Streamed const& streamed) { return streamed.segment.first_piece; });
  return static_cast<std::size_t>(found - streamed_.begin());
}

void WeightStream::add_traffic(WeightTraffic const& more) {
  std::lock_guard const lock(traffic_guard_);
  traffic_ += more;
}

} // namespace varve
