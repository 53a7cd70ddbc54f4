#pragma once

#include "engine/layer_formats.hpp"
#include "engine/panel.hpp"
#include "engine/weight_stream.hpp"
#include "plan/memory.hpp"
#include "plan/weight_segments.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// The weights of a network on a device, layer by layer in the formats that the plan chose. Weights that do not fit the
/// memory limit are streamed (see WeightStream); then layer 0 has no second form.
template <class ExecutionSpace, class Scalar>
class LayerStore {
public:
  using Formats = LayerFormats<ExecutionSpace, Scalar>;
  using Format = typename Formats::Format;
  using Encoded = typename Formats::Encoded;
  using FirstLayer = typename Formats::FirstLayer;
  using Cones = typename Formats::Cones;

  explicit LayerStore(MemoryLimits const& limits) : limits_(limits) {}

  std::size_t num_layers() const { return layers_.size(); }
  Format const& format(std::size_t layer) const { return layers_[layer].format; }
  FirstLayer const& first() const { return first_; }
  bool is_streamed() const { return is_streamed_; }
  /// Bytes of weights on the device.
  std::size_t bytes() const { return stream_ ? stream_->device_bytes() + resident_bytes_ : bytes_; }

  /// Adds the next layer, whose weights place() sets. `num_neurons`: neurons of the widest layer so far.
  void add(std::size_t num_neurons) {
    layers_.emplace_back();
    max_neurons_ = std::max(max_neurons_, num_neurons);
  }

  /// Sets the weights of the layer that was added last.
  void place(Layer const& layer, Encoded const& encoded, int index_bits) {
    make_room(Formats::bytes_of(encoded, layer, index_bits));
    StoredLayer& stored = layers_.back();
    if (is_streamed_) {
      ArraysInImage<ExecutionSpace> image;
      stored.format = Formats::place(layer, encoded, image);
      stored.image = keep(image.release());
    } else {
      stored.format = Formats::place(layer, encoded, ArraysOnDevice<ExecutionSpace>());
    }
    bytes_ += std::visit([](auto const& format) { return format.bytes(); }, stored.format);
  }

  /// Sets the weights of a run of cones, the first layer of which was added last. Cones stay on the device even if
  /// other weights are streamed, because they are small.
  void place(std::span<Layer const> run, ConeRun const& cones) {
    Cones programs(run, cones);
    bytes_ += programs.bytes();
    resident_bytes_ += programs.bytes();
    layers_.back().format = std::move(programs);
  }

  /// Adds the second form of layer 0; false if the device has no room for it.
  bool place_first(Layer const& layer, FirstLayerChoice const& choice, int index_bits) {
    auto first = Formats::place_first(layer, choice, index_bits == 16);
    std::size_t const more = bytes_of(first);
    if (is_streamed_ || bytes_ + more > room()) return false;
    first_ = std::move(first);
    bytes_ += more;
    return true;
  }

  /// To be called when all layers are placed: starts the stream if weights are streamed. maker(keeps_all) returns the
  /// function that makes the image of a layer again; keeps_all: the host kept all images, so it will not be called.
  using MakeImage = typename WeightStream<ExecutionSpace>::MakeImage;
  void finish(std::function<MakeImage(bool keeps_all)> const& maker) {
    make_room(0);
    if (!is_streamed_) return;
    std::vector<WeightImage> images;
    std::vector<std::size_t> layer_bytes;
    for (auto& layer : layers_) {
      layer_bytes.push_back(layer.image.num_bytes);
      images.push_back(std::move(layer.image));
    }
    bool const keeps_all = std::ranges::all_of(images, &WeightImage::is_kept);
    stream_ = std::make_unique<WeightStream<ExecutionSpace>>(
        plan_segments(layer_bytes, {room() - std::min(room(), resident_bytes_), limits_.device_weights.has_value()}),
        std::move(images), maker(keeps_all));
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      for_each_streamed(layers_[number].format,
                        [&](auto& format) { move_arrays(format, stream_->address_of(number)); });
    }
  }

  /// The stream of weights; null if all weights are on the device.
  WeightStream<ExecutionSpace>* stream() const { return stream_.get(); }

private:
  struct StoredLayer {
    Format format; ///< a run of cones is stored with its first layer
    WeightImage image = {};
  };

  template <class Visit>
  static void for_each_streamed(Format& format, Visit const& visit) {
    std::visit(
        [&]<class F>(F& one) {
          if constexpr (!std::is_same_v<F, Cones>) visit(one);
        },
        format);
  }

  static std::size_t bytes_of(FirstLayer const& first) {
    return std::visit(
        []<class F>(F const& format) -> std::size_t {
          if constexpr (!std::is_same_v<F, std::monostate>) return format.bytes();
          return 0;
        },
        first);
  }

  /// Bytes for weights. Beside them the smallest batch must fit: two buffers of its activations, and twice as much for
  /// two batches of samples and its other arrays.
  std::size_t room() const {
    std::size_t const sample_bytes = 6 * max_neurons_ * sizeof(Scalar) + 128;
    return room_for_weights(limits_, Panel<ExecutionSpace, Scalar>::slot_granularity * sample_bytes);
  }

  /// If `bytes` more bytes of weights do not fit, drops the second form of layer 0; if they still do not fit, begins to
  /// stream: moves all layers into images on the host, as place() does from then on.
  void make_room(std::size_t bytes) {
    if (is_streamed_ || bytes_ + bytes <= room()) return;
    bytes_ -= bytes_of(first_);
    first_ = std::monostate();
    if (bytes_ + bytes <= room()) return;
    is_streamed_ = true;
    for (auto& layer : layers_) {
      ArraysInImage<ExecutionSpace> image;
      for_each_streamed(layer.format,
                        [&](auto& format) { format.for_each_array([&](auto& array) { image.take(array); }); });
      layer.image = keep(image.release());
    }
  }

  /// Keeps the image of a layer, if the host has room for it.
  WeightImage keep(std::vector<unsigned char> bytes) {
    WeightImage image{bytes.size(), {}};
    if (kept_bytes_ + image.num_bytes > limits_.host_weights) return image;
    kept_bytes_ += image.num_bytes;
    image.bytes = std::move(bytes);
    return image;
  }

  MemoryLimits limits_;
  std::vector<StoredLayer> layers_;
  FirstLayer first_;
  std::size_t max_neurons_ = 0;
  std::size_t bytes_ = 0;
  std::size_t resident_bytes_ = 0; ///< bytes of cones, which are never streamed
  bool is_streamed_ = false;
  std::size_t kept_bytes_ = 0;                           ///< bytes of images on the host
  std::unique_ptr<WeightStream<ExecutionSpace>> stream_; ///< last member: its thread uses the members before it
};

} // namespace varve
