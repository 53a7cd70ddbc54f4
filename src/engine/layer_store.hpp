#pragma once

#include "core/device_memory.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"
#include "engine/panel.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// The image (ArraysInImage) of a piece of the weights, a layer or a strip, in host memory.
struct WeightImage {
  std::size_t num_bytes = 0;
  std::vector<unsigned char> bytes; ///< empty: the image is made again whenever it is needed

  bool is_kept() const { return bytes.size() == num_bytes; }
};

/// Streams weights through a device that cannot hold all of them, segment by segment. A thread copies the next segments
/// into buffers while one is computed. Each image has a fixed address on the device, so that kernels' arrays stay
/// valid. If the host does not keep all images of a segment, the thread makes them again each time.
class WeightStream {
public:
  /// Makes the image of a piece; several threads call it at a time.
  using MakeImage = std::function<std::vector<unsigned char>(std::size_t piece)>;

  WeightStream(DeviceMemory const& memory, WeightSegments plan, std::vector<WeightImage> images, MakeImage make_image)
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

  /// The device address of a piece's image while its segment is on the device.
  unsigned char const* address_of(std::size_t piece) const {
    auto const& segment = plan_.segments[segment_of(piece)];
    auto const* place = place_of(segment);
    for (std::size_t before = segment.first_piece; before < piece; ++before) place += image_bytes_[before];
    return reinterpret_cast<unsigned char const*>(place);
  }

  std::size_t segment_of(std::size_t piece) const {
    auto const next = std::ranges::upper_bound(plan_.segments, piece, {}, &WeightSegment::first_piece);
    return static_cast<std::size_t>(next - plan_.segments.begin()) - 1;
  }

  /// Waits until the segment is on the device for kernels launched next on the stream. Segments must be acquired in
  /// order, starting again with the first one after each finish().
  void acquire(Stream const& stream, std::size_t segment) {
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

  /// Call at the end of a run: starts to load the first segments again.
  void finish(Stream const& stream) {
    leave(stream);
    if (next_to_use_ == 0) return; // segment 0 is the next one already
    loader_.forget();
    next_to_use_ = next_to_load_ = 0;
    for (std::size_t buffer = 0; buffer < plan_.num_buffers; ++buffer) want_next();
  }

  /// The traffic since the last call.
  WeightTraffic take_traffic() {
    std::lock_guard const lock(traffic_guard_);
    return std::exchange(traffic_, {});
  }

  StreamSummary summary() const {
    std::size_t host_bytes = 0;
    for (auto const& segment : streamed_) host_bytes += segment.kept.size();
    return {plan_.segments.size(), plan_.segments.size() - streamed_.size(),
            num_remade_,           plan_.num_buffers,
            plan_.buffer_bytes,    host_bytes + staging_.size()};
  }

  std::size_t device_bytes() const { return plan_.device_bytes(); }

private:
  struct Streamed {
    WeightSegment segment;
    DeviceBytes kept; ///< on the host; empty: the segment is made again each time
  };

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  DeviceBytes on_host(std::size_t bytes) const { return memory_.allocate_on_host("varve::streamed_weights", bytes); }

  std::byte* place_of(WeightSegment const& segment) const { return device_.data() + segment.place; }
  /// Copies a resident segment to the device; otherwise joins its images in host memory if all of them are kept.
  void take(WeightSegment const& segment, std::vector<WeightImage>& images) {
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

  void load(std::size_t number) {
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

  void make_images(WeightSegment const& segment, std::byte* target) const {
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
  void copy(Stream const& stream, WeightSegment const& segment, std::byte const* source) const {
    if (memory_.is_host()) {
      std::memcpy(place_of(segment), source, segment.bytes); // a stream's copy would wait for running kernels
    } else {
      stream.copy_to_device(place_of(segment), source, segment.bytes);
      stream.fence("varve: weights have arrived");
    }
  }

  /// Segment i goes to buffer i % num_buffers.
  void want_next() {
    auto const number = next_to_load_;
    next_to_load_ = after(number);
    loader_.want([this, number](std::size_t /*buffer*/) {
      if (number < streamed_.size()) load(number);
    });
  }

  /// Waits for the launched kernels and releases the buffer of the present segment.
  void leave(Stream const& stream) {
    if (current_ != none && !plan_.segments[current_].is_resident) {
      stream.fence("varve: weights are not needed any more");
      give_back();
      for (; next_to_use_ >= streamed_.size(); give_back()) loader_.next();
    }
    current_ = none;
  }

  /// Releases the buffer of the present segment for the next load.
  void give_back() {
    loader_.give_back();
    want_next();
    next_to_use_ = after(next_to_use_);
  }

  /// The number after that of a streamed segment. Numbers are padded to a multiple of the number of buffers, so that
  /// segment 0 always uses buffer 0.
  std::size_t after(std::size_t number) const {
    auto const buffers = plan_.num_buffers;
    return (number + 1) % ((streamed_.size() + buffers - 1) / buffers * buffers);
  }

  void add_traffic(WeightTraffic const& more) {
    std::lock_guard const lock(traffic_guard_);
    traffic_ += more;
  }

  DeviceMemory const& memory_;
  WeightSegments plan_;
  MakeImage make_image_;
  std::vector<std::size_t> image_bytes_; ///< bytes of each piece's image
  DeviceBytes device_;                   ///< segments that stay, then the buffers
  std::vector<Streamed> streamed_;       ///< segments that do not stay
  std::size_t num_remade_ = 0;           ///< streamed segments that are made again each time
  DeviceBytes staging_;                  ///< a remade segment before its copy to the device
  std::unique_ptr<Stream> copies_;       ///< the stream of copies, which overlap kernels
  std::size_t current_ = none;           ///< the segment in use
  std::mutex traffic_guard_;
  WeightTraffic traffic_;
  std::size_t next_to_load_ = 0; ///< number of a streamed segment, see after()
  std::size_t next_to_use_ = 0;
  LoadAhead loader_; ///< last member: its thread uses all members above
};

/// The weights of a network on a device, layer by layer in the formats that the plan chose. Weights that exceed the
/// memory limit are streamed (see WeightStream); then layer 0 has no further copies, and strips replace layers if two
/// of them do not fit.
class LayerStore {
public:
  /// The kernels must outlive this object.
  LayerStore(KernelSet const& kernels, MemoryLimits const& limits) : kernels_(kernels), limits_(limits) {}

  std::size_t num_layers() const { return layers_.size(); }
  /// A layer, or a strip if the layer was cut into strips. Null for the layers of a run of cones after the first.
  DeviceLayer const* layer(std::size_t layer, std::size_t strip = 0) const {
    auto const& strips = layers_[layer].strips;
    return strips.empty() ? layers_[layer].whole.layer.get() : strips[strip].layer.get();
  }

  /// The copy of layer 0 that reads the samples in this way; null if there is none.
  DeviceLayer const* first(FirstLayerInput way) const {
    return (way == FirstLayerInput::entries ? entries_ : first_).get();
  }
  bool is_streamed() const { return is_streamed_; }
  /// Bytes of weights on the device.
  std::size_t bytes() const { return stream_ ? stream_->device_bytes() + resident_bytes_ : bytes_; }

  /// Adds the next layer; place() adds its weights. `num_neurons`: neurons of the widest layer so far.
  void add(std::size_t num_neurons) {
    layers_.emplace_back();
    max_neurons_ = std::max(max_neurons_, num_neurons);
  }

  /// Sets the weights of the layer that was added last.
  void place(Layer const& layer, EncodedLayer const& encoded) {
    make_room(encoded.bytes);
    Stored& stored = layers_.back().whole;
    if (is_streamed_) {
      stored = in_image(layer, encoded, true);
    } else {
      stored.layer = kernels_.place(layer, encoded, nullptr);
    }
    bytes_ += stored.layer->bytes();
  }

  /// Sets the weights of a run of cones whose first layer was added last. Cones stay on the device even if other
  /// weights are streamed, because they are small.
  void place(std::span<Layer const> run, ConeRun const& cones) {
    auto& stored = layers_.back().whole.layer;
    stored = kernels_.place_cones(run, cones);
    bytes_ += stored->bytes();
    resident_bytes_ += stored->bytes();
  }

  /// Adds a copy of layer 0 for one way of reading samples; false if the device has no room for it.
  bool place_first(Layer const& layer, FirstLayerChoice const& choice) {
    auto first = kernels_.place_first(layer, choice);
    std::size_t const more = first->bytes();
    if (is_streamed_ || bytes_ + more > room()) return false;
    (choice.way == FirstLayerInput::entries ? entries_ : first_) = std::move(first);
    bytes_ += more;
    return true;
  }

  /// Call after all layers are placed and before finish(): the layers of which two do not fit the room for streamed
  /// weights.
  std::vector<std::size_t> layers_too_large() {
    make_room(0);
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; is_streamed_ && number < layers_.size(); ++number) {
      if (2 * bytes_of(number) > room_for_stream().most) numbers.push_back(number);
    }
    return numbers;
  }

  RoomForWeights room_for_stream() const {
    return {room() - std::min(room(), resident_bytes_), limits_.device_weights.has_value()};
  }

  /// Throws ResourceError, naming sufficient limits: not even strips of layer number `layer`, of which the smallest
  /// have up to min_strip_bytes bytes, fit the device.
  [[noreturn]] void refuse_strips(std::size_t layer, std::size_t min_strip_bytes) const {
    std::size_t const weights = resident_bytes_ + 2 * min_strip_bytes;
    std::size_t const batch = smallest_batch_bytes();
    auto remedy = fmt::format("--memory device={}", memory_option_for(batch + weights));
    if (limits_.device_weights) remedy += fmt::format(",weights={}", memory_option_for(weights));
    fail<ResourceError>("the weights of layer {} need {}; streamed in the smallest strips of outputs, weights need {} "
                        "beside {} for the smallest batch, but only {} may be used for weights; {} suffices (without a "
                        "device of its own: also --memory host of that size), or take a device with more memory",
                        layer, in_gibibytes(bytes_of(layer)), in_gibibytes(weights), in_gibibytes(batch),
                        in_gibibytes(room()), remedy);
  }

  /// Adds the next strip of a layer that is too large. The first strip replaces the layer.
  void place_strip(std::size_t number, Layer const& strip, EncodedLayer const& encoded) {
    auto& [whole, strips] = layers_[number];
    kept_bytes_ -= whole.image.bytes.size();
    whole = {};
    strips.push_back(in_image(strip, encoded, false));
  }

  /// A layer, or a strip of a layer that was cut.
  struct Piece {
    std::size_t layer = 0;
    std::size_t strip = 0;
  };
  /// Makes the image of a piece again; several threads call it at a time.
  using MakeImage = std::function<std::vector<unsigned char>(Piece const& piece)>;

  /// Call after all layers and strips are placed: starts the stream if weights are streamed.
  void finish(MakeImage make_image) {
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

  /// The stream of weights; null if all weights are on the device. Its pieces are the layers, or the strips of those
  /// that were cut, in order.
  WeightStream* stream() const { return stream_.get(); }

private:
  struct Stored {
    std::unique_ptr<DeviceLayer> layer; ///< a run of cones is stored with its first layer
    WeightImage image = {};
  };
  struct StoredLayer {
    Stored whole;
    std::vector<Stored> strips; ///< replace `whole` if there are any
  };

  /// Calls visit(stored, piece) for each layer, or each of its strips if it was cut, in order.
  template <class Visit>
  void for_each_piece(Visit const& visit) {
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      auto& [whole, strips] = layers_[number];
      if (strips.empty()) visit(whole, Piece{number, 0});
      for (std::size_t strip = 0; strip < strips.size(); ++strip) visit(strips[strip], Piece{number, strip});
    }
  }

  std::size_t bytes_of(std::size_t layer) const { return layers_[layer].whole.image.num_bytes; }
  /// Bytes for weights if the smallest batch must fit as well.
  std::size_t room() const { return room_for_weights(limits_, smallest_batch_bytes()); }

  /// Bytes of the smallest batch: two buffers of its activations, and twice as much for two batches of samples and its
  /// other arrays.
  std::size_t smallest_batch_bytes() const {
    std::size_t const sample_bytes = 6 * max_neurons_ * kernels_.scalar_bytes() + 128;
    return Panel::slot_granularity * sample_bytes;
  }

  /// If `bytes` more bytes of weights do not fit, drops the copies of layer 0. If they still do not fit, starts to
  /// stream: moves all layers into images on the host, to which place() adds from then on.
  void make_room(std::size_t bytes) {
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
  Stored in_image(Layer const& layer, EncodedLayer const& encoded, bool may_be_cut) {
    std::vector<unsigned char> image;
    auto placed = kernels_.place(layer, encoded, &image);
    return {std::move(placed), keep(std::move(image), may_be_cut)};
  }

  /// Keeps an image if the host has room for it. may_be_cut: the image is a whole layer; strips will replace it if the
  /// room, which only shrinks, is too small for two of it.
  WeightImage keep(std::vector<unsigned char> bytes, bool may_be_cut) {
    WeightImage image{bytes.size(), {}};
    if (may_be_cut && 2 * image.num_bytes > room()) return image;
    if (kept_bytes_ + image.num_bytes > limits_.host_weights) return image;
    kept_bytes_ += image.num_bytes;
    image.bytes = std::move(bytes);
    return image;
  }

  KernelSet const& kernels_;
  MemoryLimits limits_;
  std::vector<StoredLayer> layers_;
  std::unique_ptr<DeviceLayer> first_;   ///< layer 0 for samples whose values are all equal
  std::unique_ptr<DeviceLayer> entries_; ///< layer 0 for samples with few entries
  std::size_t max_neurons_ = 0;
  std::size_t bytes_ = 0;
  std::size_t resident_bytes_ = 0; ///< bytes of cones, which are never streamed
  bool is_streamed_ = false;
  std::size_t kept_bytes_ = 0;           ///< bytes of images on the host
  std::unique_ptr<WeightStream> stream_; ///< last member: its thread uses the members before it
};

} // namespace varve
