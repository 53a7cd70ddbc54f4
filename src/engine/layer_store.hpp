#pragma once

#include "engine/kernel_set.hpp"
#include "engine/weight_stream.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace varve {

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
  /// Throws ResourceError, naming sufficient limits: not even strips of layer number `layer`, of which the smallest
  /// have up to min_strip_bytes bytes, fit the device.
  [[noreturn]] void refuse_strips(std::size_t layer, std::size_t min_strip_bytes) const;

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

  /// The segment that holds a piece of streamed weights.
  std::size_t segment_of(Piece const& piece) const;

  /// The stream of weights; null if all weights are on the device.
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
  std::vector<Piece> pieces_;            ///< pieces of streamed weights, in order
  std::unique_ptr<WeightStream> stream_; ///< last member: its thread uses the members before it
};

} // namespace varve
