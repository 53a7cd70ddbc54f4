#pragma once

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/runtime.hpp"
#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"
#include "engine/layer_store.hpp"
#include "engine/neuron_split.hpp"
#include "network/layer_memory.hpp"
#include "plan/choose.hpp"
#include "plan/cuts.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// Makes the image of a layer or of a strip again, for a host that cannot keep it. Keeps the layer that it read last
/// until its last strip was made. Several threads may call it at a time.
class PieceMaker {
public:
  /// Kernels and chooser must outlive this object.
  PieceMaker(KernelSet const& kernels, LayerChooser const& chooser, std::shared_ptr<NetworkSource const> source,
             std::vector<PlannedLayer> planned)
      : kernels_(kernels), chooser_(chooser), source_(std::move(source)), planned_(std::move(planned)) {}

  std::vector<unsigned char> make(LayerStore::Piece const& piece) {
    auto const& planned = planned_[piece.layer];
    if (planned.strips.empty()) {
      Layer const layer = source_->layer(piece.layer);
      return image_of(layer, chooser_.choose(layer, piece.layer));
    }
    auto const whole = layer_to_cut(piece.layer, piece.strip + 1 == planned.strips.size());
    return image_of(layer_of(*whole, planned.strips[piece.strip].outputs), {planned.choice, {}, {}});
  }

private:
  std::vector<unsigned char> image_of(Layer const& layer, Encoding encoding) const {
    std::vector<unsigned char> image;
    kernels_.place(layer, kernels_.encode(layer, std::move(encoding)), &image);
    return image;
  }

  /// The whole layer, read again unless it was the last one. is_last: the caller needs the last strip of the layer.
  std::shared_ptr<Layer const> layer_to_cut(std::size_t number, bool is_last) {
    std::lock_guard const lock(guard_);
    if (!last_ || last_number_ != number) {
      last_ = nullptr; // frees it before another is read
      last_ = std::make_shared<Layer const>(source_->layer(number));
      last_number_ = number;
    }
    return is_last ? std::exchange(last_, nullptr) : last_;
  }

  KernelSet const& kernels_;
  LayerChooser const& chooser_;
  std::shared_ptr<NetworkSource const> source_;
  std::vector<PlannedLayer> planned_;
  std::mutex guard_; ///< guards the members below
  std::size_t last_number_ = 0;
  std::shared_ptr<Layer const> last_; ///< null: none is kept
};

/// A network on a device: its layers in the formats that the plan chose (LayerChooser), and a launch for each step of
/// the plan (LaunchCutter).
class DeviceNetwork {
public:
  /// A step of the plan and its launch.
  struct ReadyStep {
    Step step;
    std::unique_ptr<Launch> work;
    HandOver hand_over; ///< with slices, without lists of samples
  };

  /// Throws InputError if layers do not fit together, ResourceError if weights cannot even be streamed in strips within
  /// the limits. The kernels must outlive this object. `slices`: equals `source` if it is one rank's part of a larger
  /// network, else null; with slices, every layer is a separate step.
  DeviceNetwork(KernelSet const& kernels, std::shared_ptr<NetworkSource const> const& source,
                InferenceOptions const& options, MemoryLimits const& limits, LayerSlices const* slices)
      : kernels_(kernels),
        source_(source),
        traits_(kernels.traits()),
        chooser_(traits_, {options.formats, options.kernel, options.expected_samples, slices != nullptr}),
        slices_(slices),
        reductions_(options.reductions),
        cuts_layers_(options.cuts_layers),
        is_forced_(!options.formats.empty() || options.kernel),
        encoding_limit_(limits.encoding),
        store_(kernels, limits) {
    ProfilingRegion const region("varve::prepare");
    std::vector<Layer> layers;
    for (std::size_t first = 0; first < source->num_layers(); first += layers.size()) {
      layers.assign(std::min(layers_at_a_time, source->num_layers() - first), Layer());
      for_each_on_host_threads(layers.size(), [&](std::size_t i) { layers[i] = source->layer(first + i); });
      add(layers, first);
      if (first == 0 && source->num_layers() > 1) add_first(layers.front());
      for (auto& layer : layers) recycle(std::move(layer));
    }
    finish();
    plan_for(FirstLayerInput::tiles);
  }

  std::size_t num_inputs() const { return num_inputs_; }
  std::size_t num_outputs() const { return num_outputs_; }
  std::size_t num_layers() const { return cutter_->num_layers(); }
  EdgeOffset num_edges() const { return num_edges_; }
  /// Bytes of weights on the device.
  std::size_t bytes() const { return store_.bytes(); }

  /// The best way for the first layer to read samples. density: entries per sample and input. num_samples: those of
  /// this kind that are known, past ones included; if they are enough, the copy of the layer for few entries is made.
  FirstLayerInput way_for(bool has_one_value, double density, std::size_t num_samples) {
    if (density <= kFewEntries && has_copy_for_entries(num_samples)) return FirstLayerInput::entries;
    return has_one_value ? one_value_way_ : FirstLayerInput::tiles;
  }

  /// Makes a new plan in which the first layer reads the samples in this way, a result of way_for().
  void plan_for(FirstLayerInput way) {
    first_way_ = way;
    cutter_->set_first(way, way == FirstLayerInput::entries ? entries_->choice : one_value_choice_);
    form_launches();
  }

  /// How the first layer reads the samples in the present plan.
  FirstLayerInput first_way() const { return first_way_; }
  /// Neurons of the widest layer that the panel must hold; without_tiles: the inputs need no room.
  std::size_t max_neurons(bool without_tiles) const {
    return without_tiles ? max_outputs_ : std::max(max_outputs_, num_inputs_);
  }

  /// True if this is one rank's part of a larger network.
  bool has_slices() const { return slices_ != nullptr; }

  std::vector<ReadyStep> const& steps() const { return steps_; }
  std::size_t saturates_from() const { return cutter_->saturates_from(); }
  /// The last activation of every neuron of permanently saturated samples, rounded to the scalar type.
  double saturated_value() const {
    double const value = cutter_->saturated_value();
    return kernels_.scalar_bytes() == sizeof(float) ? static_cast<double>(static_cast<float>(value)) : value;
  }

  /// Learns from a batch of num_samples samples; `known` has the shares of live samples after some layers. Returns true
  /// if that led to a new plan.
  bool learn(std::vector<LiveShare> const& known, std::size_t num_samples) {
    if (!cutter_->learn(known, num_samples)) return false;
    form_launches();
    return true;
  }

  /// Waits until the weights of this step are on the device for kernels launched next on the stream. Steps must come in
  /// order.
  void acquire(Stream const& stream, ReadyStep const& step) {
    if (store_.stream() != nullptr) store_.stream()->acquire(stream, step.step.segment);
  }
  /// Call at the end of every run, even if it ended before the last step.
  void finish_run(Stream const& stream) {
    if (store_.stream() != nullptr) store_.stream()->finish(stream);
  }
  std::optional<StreamSummary> stream() const {
    return store_.stream() == nullptr ? std::nullopt : std::optional(store_.stream()->summary());
  }

  WeightTraffic take_traffic() {
    return store_.stream() == nullptr ? WeightTraffic() : store_.stream()->take_traffic();
  }

private:
  static constexpr std::size_t layers_at_a_time = 16;

  /// Chooses formats for these layers, with numbers first, first + 1, ..., and places them on the device.
  void add(std::vector<Layer> const& layers, std::size_t first) {
    std::vector<std::shared_ptr<ConeRun const>> runs(layers.size());
    if (!store_.is_streamed()) runs = chooser_.choose_cones(layers, first);
    std::vector<Encoding> encodings(layers.size());
    std::vector<PlannedLayer> planned(layers.size());
    for_each_on_host_threads(layers.size(), [&](std::size_t i) {
      if (runs[i] == nullptr) encodings[i] = choose(layers[i], first + i);
      planned[i].choice = encodings[i].choice;
      if (reductions_.saturation)
        planned[i].kept_cap =
            kernels_.scalar_bytes() == sizeof(float) ? kept_cap<float>(layers[i]) : kept_cap<double>(layers[i]);
    });
    std::vector<EncodedLayer> encoded(layers.size());
    std::size_t num_encoded = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i == num_encoded) {
        num_encoded = end_of_group(planned, i);
        for_each_on_host_threads(num_encoded - i, [&](std::size_t k) {
          if (runs[i + k] == nullptr) encoded[i + k] = kernels_.encode(layers[i + k], std::move(encodings[i + k]));
        });
      }
      take_in(layers[i], planned[i]);
      if (runs[i] == nullptr) {
        store_.place(layers[i], encoded[i]);
        encoded[i] = {};
      } else if (runs[i]->first_layer == i) {
        auto const run = std::span<Layer const>(layers).subspan(i, runs[i]->num_layers);
        planned_.back().choice = chooser_.choice_of(run, *runs[i]);
        store_.place(run, *runs[i]);
      } else {
        planned_.back().choice.num_edges = layers[i].num_edges();
      }
    }
  }

  /// Chooses for a layer. Throws ResourceError if a requested format or kernel pads the layer so much that encoding it
  /// exceeds both the limit and the memory of the layer as it was read.
  Encoding choose(Layer const& layer, std::size_t number) const {
    auto encoding = chooser_.choose(layer, number);
    std::size_t const bytes = encoding.choice.encoded_bytes(kernels_.scalar_bytes());
    if (is_forced_ && bytes > encoding_limit_ && bytes > bytes_of(layer))
      fail<ResourceError>("layer {} needs {} of the host's memory in the format that was asked for, {}, but only {} "
                          "may be used; leave formats and kernel of --tuning out, or raise --memory host to {}",
                          number, in_gibibytes(bytes), to_string(encoding.choice.format), in_gibibytes(encoding_limit_),
                          memory_option_for(bytes));
    return encoding;
  }

  /// One past the last of the layers that are encoded together with layer `first`: as many as fit the memory for
  /// encoding, and at least one.
  std::size_t end_of_group(std::vector<PlannedLayer> const& planned, std::size_t first) const {
    std::size_t bytes = 0;
    std::size_t end = first;
    while (end < planned.size() && (end == first || bytes <= encoding_limit_))
      bytes += planned[end++].choice.encoded_bytes(kernels_.scalar_bytes());
    return bytes > encoding_limit_ && end > first + 1 ? end - 1 : end;
  }

  void take_in(Layer const& layer, PlannedLayer planned) {
    std::size_t const number = planned_.size();
    if (number == 0) num_inputs_ = layer.num_inputs();
    if (number > 0) require_fit(num_outputs_, layer, number);
    num_outputs_ = slices_ == nullptr ? layer.num_outputs() : slices_->whole(number).num_outputs();
    max_outputs_ = std::max(max_outputs_, num_outputs_);
    num_edges_ += layer.num_edges();
    planned.num_outputs = layer.num_outputs();
    planned.cap = layer.activation.has_cap() ? layer.activation.cap : 0.0;
    planned.keeps_zero = slices_ == nullptr ? keeps_zero(layer) : slices_->whole(number).keeps_zero;
    planned_.push_back(std::move(planned));
    store_.add(std::max(max_outputs_, num_inputs_));
  }

  void add_first(Layer const& layer) {
    auto const& choice = planned_.front().choice;
    entries_ = chooser_.choose_entries(layer, choice);
    auto const first = chooser_.choose_first(layer, choice);
    bool const has_own = first.way == FirstLayerInput::tiles || first.way == FirstLayerInput::own_bits;
    if (!has_own && !store_.place_first(layer, first)) return;
    one_value_way_ = first.way;
    one_value_choice_ = first.choice;
  }

  bool has_copy_for_entries(std::size_t num_samples) {
    if (store_.first(FirstLayerInput::entries) != nullptr) return true;
    if (!entries_ || num_samples < entries_->min_samples) return false;
    if (!store_.place_first(source_->layer(0), *entries_)) entries_.reset(); // the device has no room for it
    return entries_.has_value();
  }

  /// The bytes of the smallest strips of a layer.
  std::size_t min_bytes(Layer const& layer, std::size_t number) const {
    return min_strip_bytes(layer.weights, chooser_.strip_shape(layer, planned_[number].choice));
  }

  /// Cuts layers of which the device cannot hold two into strips, in the plan and in the store. Throws ResourceError,
  /// naming the needed memory, if not even the smallest strips fit.
  void cut_large_layers() {
    auto const numbers = store_.layers_too_large();
    for (std::size_t const number : numbers) {
      Layer const layer = source_->layer(number);
      if (2 * min_bytes(layer, number) > store_.room_for_stream().most) refuse_strips(numbers);
      cut_layer(layer, number);
    }
  }

  /// Throws the error that names the memory needed by the layers of these numbers.
  [[noreturn]] void refuse_strips(std::vector<std::size_t> const& numbers) const {
    std::pair<std::size_t, std::size_t> most; // bytes, layer
    for (std::size_t const number : numbers) {
      std::size_t const bytes = min_bytes(source_->layer(number), number);
      if (bytes > most.first) most = {bytes, number};
    }
    store_.refuse_strips(most.second, most.first);
  }

  void cut_layer(Layer const& layer, std::size_t number) {
    constexpr std::size_t strips_at_a_time = 16;
    PlannedLayer& planned = planned_[number];
    std::size_t const most = std::max(max_strip_bytes(store_.room_for_stream()), min_bytes(layer, number));
    planned.choice = chooser_.in_strips(layer, planned.choice);
    auto const strips = cut_into_strips(layer.weights, chooser_.strip_shape(layer, planned.choice), most);
    for (std::size_t first = 0; first < strips.size(); first += strips_at_a_time) {
      std::size_t const count = std::min(strips_at_a_time, strips.size() - first);
      std::vector<Layer> parts(count);
      std::vector<EncodedLayer> encoded(count);
      for_each_on_host_threads(count, [&](std::size_t i) {
        parts[i] = layer_of(layer, strips[first + i]);
        encoded[i] = kernels_.encode(parts[i], {planned.choice, {}, {}});
      });
      for (std::size_t i = 0; i < count; ++i) {
        store_.place_strip(number, parts[i], encoded[i]);
        planned.strips.push_back({strips[first + i], chooser_.of_strip(parts[i], planned.choice)});
      }
    }
  }

  void finish() {
    if (cuts_layers_) cut_large_layers();
    if (!planned_.front().strips.empty()) one_value_way_ = FirstLayerInput::tiles; // kernels of strips read tiles
    store_.finish([maker = std::make_shared<PieceMaker>(kernels_, chooser_, source_, planned_)](
                      LayerStore::Piece const& piece) { return maker->make(piece); });
    bool const needs_copy = one_value_way_ == FirstLayerInput::bits || one_value_way_ == FirstLayerInput::counts;
    if (needs_copy && store_.first(one_value_way_) == nullptr)
      one_value_way_ = FirstLayerInput::tiles; // there was no memory for the copy
    std::size_t piece = 0;
    for (auto& planned : planned_) {
      if (store_.stream() == nullptr) break;
      planned.choice = chooser_.streamed(planned.choice);
      planned.segment = store_.stream()->segment_of(piece);
      for (auto& strip : planned.strips) strip.segment = store_.stream()->segment_of(piece++);
      if (planned.strips.empty()) ++piece;
    }
    cutter_.emplace(std::move(planned_), traits_,
                    CutRequest{FirstLayerInput::tiles, {}, reductions_.saturation, reductions_.equal_samples});
  }

  void form_launches() {
    steps_.clear();
    for (auto const& step : cutter_->steps()) {
      HandOver hand_over{step.lists_live,
                         step.lists_saturated,
                         step.joins_equal,
                         step.keeps_dead,
                         static_cast<int>(step.next_tile_samples),
                         saturated_value(),
                         step.lists_live || step.joins_equal};
      if (has_slices()) // live samples are known only after the ranks' parts are joined
        hand_over = {.lists_live = false, .tile_samples = static_cast<int>(step.choice.tile_samples)};
      steps_.push_back({step, launch_of(step), hand_over});
    }
  }

  std::unique_ptr<Launch> launch_of(Step const& step) const {
    std::vector<DeviceLayer const*> layers = {
        reads_copy_of_first_layer(step.kernel) ? store_.first(first_way_) : store_.layer(step.first_layer, step.strip)};
    for (std::size_t number = step.first_layer + 1; number <= step.last_layer; ++number)
      if (auto const* layer = store_.layer(number)) layers.push_back(layer); // cones are stored with their first layer
    return kernels_.launch_of(step, layers, *cutter_);
  }

  KernelSet const& kernels_;
  std::shared_ptr<NetworkSource const> source_;
  DeviceTraits traits_;
  LayerChooser chooser_;
  LayerSlices const* slices_;
  Reductions reductions_;
  bool cuts_layers_;
  bool is_forced_;                    ///< formats or a kernel are requested
  std::size_t encoding_limit_;        ///< host memory in bytes for layers that are being encoded
  std::vector<PlannedLayer> planned_; ///< moves to cutter_ when all layers are known
  std::optional<LaunchCutter> cutter_;
  std::vector<ReadyStep> steps_;
  FirstLayerInput first_way_ = FirstLayerInput::tiles;     ///< how layer 0 reads the samples in the present plan
  FirstLayerInput one_value_way_ = FirstLayerInput::tiles; ///< how it best reads samples whose values are all equal
  LayerChoice one_value_choice_;                           ///< choice of the copy that one_value_way_ reads
  std::optional<FirstLayerChoice> entries_;                ///< copy for samples with few entries, if one is faster
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t max_outputs_ = 0;
  EdgeOffset num_edges_ = 0;
  LayerStore store_; ///< last member: its thread uses the members before it
};

} // namespace varve
