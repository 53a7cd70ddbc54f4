#pragma once

#include "core/device_memory.hpp"
#include "core/host_threads.hpp"
#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
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

/// The weights of a network on a device, layer by layer in the formats that the plan chose. Weights that exceed the
/// memory limit are streamed (see WeightStream); then layer 0 has no further copies, and strips replace layers if two
/// of them do not fit.
class LayerStore {
public:
  /// The kernels must outlive this object.
  LayerStore(KernelSet const& kernels, MemoryLimits const& limits) : kernels_(kernels), limits_(limits) {}

  std::size_t num_layers() const { return layers_.size(); }
  /// A layer, or a strip if the layer was cut into strips. Null for the layers of a run of cones after the first.
  DeviceLayer const* layer(std::size_t layer, std::size_t strip = 0) const;
  /// The copy of layer 0 that reads the samples in this way; null if there is none.
  DeviceLayer const* first(FirstLayerInput way) const {
    return (way == FirstLayerInput::entries ? entries_ : first_).get();
  }
  bool is_streamed() const { return is_streamed_; }
  /// Bytes of weights on the device.
  std::size_t bytes() const { return stream_ ? stream_->device_bytes() + resident_bytes_ : bytes_; }

  /// Adds the next layer; place() adds its weights. `num_neurons`: neurons of the widest layer so far.
  void add(std::size_t num_neurons);

  /// Sets the weights of the layer that was added last.
  void place(Layer const& layer, EncodedLayer const& encoded);

  /// Sets the weights of a run of cones whose first layer was added last. Cones stay on the device even if other
  /// weights are streamed, because they are small.
  void place(std::span<Layer const> run, ConeRun const& cones);

  /// Adds a copy of layer 0 for one way of reading samples; false if the device has no room for it.
  bool place_first(Layer const& layer, FirstLayerChoice const& choice);

  /// Call after all layers are placed and before finish(): the layers of which two do not fit the room for streamed
  /// weights.
  std::vector<std::size_t> layers_too_large();
  RoomForWeights room_for_stream() const;
  /// Memory needed for layer number `layer` if its smallest strips have up to min_strip_bytes bytes.
  StripNeed need_of(std::size_t layer, std::size_t min_strip_bytes) const;

  /// Adds the next strip of a layer that is too large. The first strip replaces the layer.
  void place_strip(std::size_t number, Layer const& strip, EncodedLayer const& encoded);

  /// A layer, or a strip of a layer that was cut.
  struct Piece {
    std::size_t layer = 0;
    std::size_t strip = 0;
  };
  /// Makes the image of a piece again; several threads call it at a time.
  using MakeImage = std::function<std::vector<unsigned char>(Piece const& piece)>;

  /// Call after all layers and strips are placed: starts the stream if weights are streamed.
  void finish(MakeImage make_image);

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

  template <class Visit>
  void for_each_piece(Visit const& visit);

  std::size_t bytes_of(std::size_t layer) const { return layers_[layer].whole.image.num_bytes; }
  std::size_t room() const;
  std::size_t smallest_batch_bytes() const;
  void make_room(std::size_t bytes);
  Stored in_image(Layer const& layer, EncodedLayer const& encoded, bool may_be_cut);
  WeightImage keep(std::vector<unsigned char> bytes, bool may_be_cut);

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
