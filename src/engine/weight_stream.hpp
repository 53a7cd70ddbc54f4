#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/host_threads.hpp"
#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "engine/segment_loader.hpp"
#include "plan/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// The image (ArraysInImage) of a piece of the weights, a layer or a strip of one, in host memory.
struct WeightImage {
  std::size_t num_bytes = 0;
  std::vector<unsigned char> bytes; ///< empty: the image is made again whenever it is needed

  bool is_kept() const { return bytes.size() == num_bytes; }
};

/// Streams weights through a device that cannot hold all of them, segment by segment. A thread copies the next segments
/// into buffers while one is computed. Each image has a fixed address on the device, so that kernels' arrays stay
/// valid. The thread makes a segment again each time if the host does not keep all of its images.
template <class ExecutionSpace>
class WeightStream {
public:
  /// Makes the image of a piece; called from several threads at a time.
  using MakeImage = std::function<std::vector<unsigned char>(std::size_t piece)>;

  WeightStream(WeightSegments plan, std::vector<WeightImage> images, MakeImage make_image)
      : plan_(std::move(plan)), make_image_(std::move(make_image)), device_(plan_.device_bytes()) {
    for (auto const& image : images) image_bytes_.push_back(image.num_bytes);
    for (auto const& segment : plan_.segments) take(segment, images);
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (num_remade_ > 0) staging_ = HostBytes(plan_.buffer_bytes);
      copy_space_ = Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0]; // copies and kernels overlap
    }
    loader_ = std::make_unique<SegmentLoader>(streamed_.size(), plan_.num_buffers, [this](std::size_t i) { load(i); });
  }

  /// The device address of a piece's image while its segment is on the device.
  unsigned char const* address_of(std::size_t piece) const {
    auto const& segment = plan_.segments[segment_of(piece)];
    std::size_t place = segment.place;
    for (std::size_t before = segment.first_piece; before < piece; ++before) place += image_bytes_[before];
    return device_.data() + place;
  }

  std::size_t segment_of(std::size_t piece) const {
    auto const next = std::ranges::upper_bound(plan_.segments, piece, {}, &WeightSegment::first_piece);
    return static_cast<std::size_t>(next - plan_.segments.begin()) - 1;
  }

  /// Makes sure that the segment is on the device for kernels launched next on the space. Segments must come in order,
  /// and start again with the first one after each finish().
  void acquire(ExecutionSpace const& space, std::size_t segment) {
    if (current_ == segment) return;
    leave(space);
    if (!plan_.segments[segment].is_resident) {
      Stopwatch const wait_time;
      loader_->acquire(number_of(segment));
      add_traffic({.wait_seconds = wait_time.seconds()});
    }
    current_ = segment;
  }

  /// To be called at the end of a run: starts to load the first segments again.
  void finish(ExecutionSpace const& space) {
    leave(space);
    loader_->rewind();
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
  /// Uninitialized memory.
  template <class MemorySpace>
  struct Bytes {
    Bytes() = default;
    explicit Bytes(std::size_t bytes)
        : view(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::streamed_weights")), bytes) {}
    unsigned char* data() const { return view.data(); }
    std::size_t size() const { return view.size(); }
    Kokkos::View<unsigned char*, MemorySpace> view;
  };
  /// Host memory from which copies to the device are fastest.
  using HostBytes =
      Bytes<std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>>;
  using DeviceBytes = Bytes<typename ExecutionSpace::memory_space>;

  struct Streamed {
    WeightSegment segment;
    HostBytes kept; ///< empty: the segment is made again each time
  };

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// Copies a segment to the device if it stays there; else joins its images in host memory if all of them are kept.
  void take(WeightSegment const& segment, std::vector<WeightImage>& images) {
    auto const first = images.begin() + static_cast<std::ptrdiff_t>(segment.first_piece);
    auto const last = images.begin() + static_cast<std::ptrdiff_t>(segment.last_piece) + 1;
    bool const is_kept = std::all_of(first, last, [](WeightImage const& image) { return image.is_kept(); });
    HostBytes all;
    if (is_kept || segment.is_resident) all = HostBytes(segment.bytes);
    auto* place = all.data();
    for (auto image = first; image != last && is_kept; place += image++->num_bytes)
      std::memcpy(place, image->bytes.data(), image->num_bytes);
    for (auto image = first; image != last; ++image) image->bytes = {};
    if (segment.is_resident) {
      if (!is_kept) make_images(segment, all.data());
      copy(ExecutionSpace(), segment, all.data());
    } else {
      num_remade_ += is_kept ? 0 : 1;
      streamed_.push_back({segment, all});
    }
  }

  void load(std::size_t number) {
    auto const& [segment, kept] = streamed_[number];
    WeightTraffic traffic;
    unsigned char const* source = kept.data();
    if (source == nullptr) {
      Stopwatch const make_time;
      auto* const target = kOnHost<ExecutionSpace> ? device_.data() + segment.place : staging_.data();
      make_images(segment, target);
      traffic.make_seconds = make_time.seconds();
      source = target;
    }
    Stopwatch const copy_time;
    if (source != device_.data() + segment.place) {
      copy(copy_space_, segment, source);
      traffic.copy_seconds = copy_time.seconds();
      traffic.copied_bytes = segment.bytes;
    }
    add_traffic(traffic);
  }

  void make_images(WeightSegment const& segment, unsigned char* target) const {
    std::vector<unsigned char*> places;
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
  void copy(ExecutionSpace const& space, WeightSegment const& segment, unsigned char const* source) const {
    unsigned char* const target = device_.data() + segment.place;
    if constexpr (kOnHost<ExecutionSpace>) {
      std::memcpy(target, source, segment.bytes); // Kokkos::deep_copy would wait for running kernels
    } else {
      using HostMemory = typename decltype(HostBytes::view)::memory_space;
      Kokkos::deep_copy(space,
                        Kokkos::View<unsigned char*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>(
                            target, segment.bytes),
                        Kokkos::View<unsigned char const*, HostMemory, Kokkos::MemoryUnmanaged>(source, segment.bytes));
      space.fence("varve: weights have arrived");
    }
  }

  /// Waits for the launched kernels and releases the buffer of the present segment.
  void leave(ExecutionSpace const& space) {
    if (current_ != none && !plan_.segments[current_].is_resident) {
      space.fence("varve: weights are not needed any more");
      loader_->release(number_of(current_));
    }
    current_ = none;
  }

  /// The index of a segment among the streamed ones.
  std::size_t number_of(std::size_t segment) const {
    auto const first_piece = plan_.segments[segment].first_piece;
    auto const found = std::ranges::lower_bound(streamed_, first_piece, {},
                                                [](Streamed const& streamed) { return streamed.segment.first_piece; });
    return static_cast<std::size_t>(found - streamed_.begin());
  }

  void add_traffic(WeightTraffic const& more) {
    std::lock_guard const lock(traffic_guard_);
    traffic_ += more;
  }

  WeightSegments plan_;
  MakeImage make_image_;
  std::vector<std::size_t> image_bytes_; ///< bytes of each piece's image
  DeviceBytes device_;                   ///< segments that stay, then the buffers
  std::vector<Streamed> streamed_;       ///< segments that do not stay
  std::size_t num_remade_ = 0;           ///< streamed segments that are made again each time
  HostBytes staging_;                    ///< a remade segment before its copy to the device
  ExecutionSpace copy_space_;
  std::size_t current_ = none; ///< the segment in use
  std::mutex traffic_guard_;
  WeightTraffic traffic_;
  std::unique_ptr<SegmentLoader> loader_; ///< last member: its thread uses all members above
};

} // namespace varve
