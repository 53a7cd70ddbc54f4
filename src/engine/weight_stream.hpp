#pragma once

#include "core/device_memory.hpp"
#include "core/host_threads.hpp"
#include "engine/inference.hpp"
#include "plan/memory.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
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

  WeightStream(DeviceMemory const& memory, WeightSegments plan, std::vector<WeightImage> images, MakeImage make_image);

  /// The device address of a piece's image while its segment is on the device.
  unsigned char const* address_of(std::size_t piece) const;

  std::size_t segment_of(std::size_t piece) const;

  /// Waits until the segment is on the device for kernels launched next on the stream. Segments must be acquired in
  /// order, starting again with the first one after each finish().
  void acquire(Stream const& stream, std::size_t segment);

  /// Call at the end of a run: starts to load the first segments again.
  void finish(Stream const& stream);

  /// The traffic since the last call.
  WeightTraffic take_traffic();

  StreamSummary summary() const;
  std::size_t device_bytes() const { return plan_.device_bytes(); }

private:
  struct Streamed {
    WeightSegment segment;
    DeviceBytes kept; ///< on the host; empty: the segment is made again each time
  };

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  DeviceBytes on_host(std::size_t bytes) const;
  std::byte* place_of(WeightSegment const& segment) const { return device_.data() + segment.place; }
  void take(WeightSegment const& segment, std::vector<WeightImage>& images);
  void load(std::size_t number);
  void make_images(WeightSegment const& segment, std::byte* target) const;
  void copy(Stream const& stream, WeightSegment const& segment, std::byte const* source) const;
  void want_next();
  void leave(Stream const& stream);
  void give_back();
  std::size_t after(std::size_t number) const;
  std::size_t number_of(std::size_t segment) const;
  void add_traffic(WeightTraffic const& more);

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

} // namespace varve
