#pragma once

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "engine/inference.hpp"
#include "engine/launches.hpp"
#include "engine/layer_slices.hpp"
#include "engine/layer_store.hpp"
#include "engine/strip_cutter.hpp"
#include "kernels/device_traits.hpp"
#include "network/layer_memory.hpp"
#include "plan/cuts.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// A network on a device: its layers in the formats that the plan chose (LayerChooser), and a launch for each step of
/// the plan (LaunchCutter).
template <class ExecutionSpace, class Scalar>
class DeviceNetwork {
public:
  using Work = Launch<ExecutionSpace, Scalar>;

  /// A step of the plan and its launch.
  struct ReadyStep {
    Step step;
    std::unique_ptr<Work> work;
    typename Work::HandOver hand_over;
  };

  /// Throws InputError if layers do not fit together, ResourceError if weights cannot even be streamed in strips within
  /// the limits. `slices`: equals `source` if it is one rank's part of a larger network, else null; with slices, every
  /// layer is a step of its own.
  DeviceNetwork(std::shared_ptr<NetworkSource const> const& source, InferenceOptions const& options,
                MemoryLimits const& limits, LayerSlices const* slices)
      : traits_(device_traits<ExecutionSpace, Scalar>(num_processors(ExecutionSpace()),
                                                      max_team_scratch<ExecutionSpace>())),
        chooser_(traits_, {options.formats, options.kernel, options.expected_samples, slices != nullptr}),
        slices_(slices),
        reductions_(options.reductions),
        cuts_layers_(options.cuts_layers),
        is_forced_(!options.formats.empty() || options.kernel),
        encoding_limit_(limits.encoding),
        store_(limits) {
    ProfilingRegion const region("varve::prepare");
    std::vector<Layer> layers;
    for (std::size_t first = 0; first < source->num_layers(); first += layers.size()) {
      layers.assign(std::min(layers_at_a_time, source->num_layers() - first), Layer());
      for_each_on_host_threads(layers.size(), [&](std::size_t i) { layers[i] = source->layer(first + i); });
      add(layers, first);
      if (first == 0 && source->num_layers() > 1) add_first(layers.front());
      for (auto& layer : layers) recycle(std::move(layer));
    }
    finish(source);
    plan_for(false);
  }

  std::size_t num_inputs() const { return num_inputs_; }
  std::size_t num_outputs() const { return num_outputs_; }
  std::size_t num_layers() const { return cutter_->num_layers(); }
  EdgeOffset num_edges() const { return num_edges_; }
  /// Bytes of weights on the device.
  std::size_t bytes() const { return store_.bytes(); }

  /// Makes a new plan for samples whose values are all equal, or not. True if the first step reads the samples
  /// directly, so that they need no tiles.
  bool plan_for(bool has_one_value) {
    auto const way = has_one_value ? first_way_ : FirstLayerInput::tiles;
    cutter_->set_first(way, first_choice_);
    form_launches();
    return way != FirstLayerInput::tiles;
  }
  /// In a plan without input tiles: true if the first layer reads the samples as bits, false if it counts entries.
  bool reads_bits() const { return first_way_ != FirstLayerInput::counts; }
  /// Neurons of the widest layer that the panel must hold; without_tiles: the inputs need no room.
  std::size_t max_neurons(bool without_tiles) const {
    return without_tiles ? max_outputs_ : std::max(max_outputs_, num_inputs_);
  }

  /// True if this is one rank's part of a larger network.
  bool has_slices() const { return slices_ != nullptr; }

  std::vector<ReadyStep> const& steps() const { return steps_; }
  std::size_t saturates_from() const { return cutter_->saturates_from(); }
  /// The last activation of every neuron of samples that are saturated for ever.
  Scalar saturated_value() const { return static_cast<Scalar>(cutter_->saturated_value()); }

  /// Learns from a batch of num_samples samples, of which `known` says how many were live where. True if that led to a
  /// new plan.
  bool learn(std::vector<LiveShare> const& known, std::size_t num_samples) {
    if (!cutter_->learn(known, num_samples)) return false;
    form_launches();
    return true;
  }

  /// Makes sure that the weights of this step are on the device for kernels launched next on the space. Steps must come
  /// in order.
  void acquire(ExecutionSpace const& space, ReadyStep const& step) {
    if (store_.stream() != nullptr) store_.stream()->acquire(space, step.step.segment);
  }
  /// To be called at the end of every run, even if it ended before the last step.
  void finish_run(ExecutionSpace const& space) {
    if (store_.stream() != nullptr) store_.stream()->finish(space);
  }
  std::optional<StreamSummary> stream() const {
    return store_.stream() == nullptr ? std::nullopt : std::optional(store_.stream()->summary());
  }
  WeightTraffic take_traffic() {
    return store_.stream() == nullptr ? WeightTraffic() : store_.stream()->take_traffic();
  }

private:
  using Formats = LayerFormats<ExecutionSpace, Scalar>;
  static constexpr std::size_t layers_at_a_time = 16;

  /// Chooses formats for these layers, numbers first, first + 1, ..., and places them on the device.
  void add(std::vector<Layer> const& layers, std::size_t first) {
    auto runs = store_.is_streamed() ? std::vector<InConeRun>(layers.size()) : chooser_.choose_cones(layers, first);
    std::vector<Encoding> encodings(layers.size());
    std::vector<PlannedLayer> planned(layers.size());
    for_each_on_host_threads(layers.size(), [&](std::size_t i) {
      if (runs[i].num_layers == 0) encodings[i] = choose(layers[i], first + i);
      planned[i].choice = encodings[i].choice;
      if (reductions_.saturation) planned[i].kept_cap = kept_cap<Scalar>(layers[i]);
    });
    std::vector<typename Formats::Encoded> encoded(layers.size());
    std::size_t num_encoded = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i == num_encoded) {
        num_encoded = end_of_group(planned, i);
        for_each_on_host_threads(num_encoded - i, [&](std::size_t k) {
          if (runs[i + k].num_layers == 0) encoded[i + k] = Formats::encode(layers[i + k], std::move(encodings[i + k]));
        });
      }
      take_in(layers[i], planned[i]);
      if (runs[i].num_layers == 0) {
        store_.place(layers[i], encoded[i]);
        encoded[i] = {};
      } else if (runs[i].is_first) {
        auto const run = std::span<Layer const>(layers).subspan(i, runs[i].num_layers);
        planned_.back().choice = chooser_.choice_of(run, runs[i].cones);
        store_.place(run, runs[i].cones);
      } else {
        planned_.back().choice.num_edges = layers[i].num_edges();
      }
    }
  }

  /// Chooses for a layer. Throws ResourceError if it would take more memory than allowed, and than the layer takes as
  /// it was read, because a format or kernel was asked for that pads it.
  Encoding choose(Layer const& layer, std::size_t number) const {
    auto encoding = chooser_.choose(layer, number);
    std::size_t const bytes = encoding.choice.encoded_bytes(sizeof(Scalar));
    if (is_forced_ && bytes > encoding_limit_ && bytes > bytes_of(layer))
      encoding_exceeds_memory(number, to_string(encoding.choice.format), bytes, encoding_limit_);
    return encoding;
  }

  /// One past the last of the layers that are encoded together with layer `first`: those that fit the memory for that,
  /// and at least that one.
  std::size_t end_of_group(std::vector<PlannedLayer> const& planned, std::size_t first) const {
    std::size_t bytes = 0;
    std::size_t end = first;
    while (end < planned.size() && (end == first || bytes <= encoding_limit_))
      bytes += planned[end++].choice.encoded_bytes(sizeof(Scalar));
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
    auto first = chooser_.choose_first(layer, planned_.front().choice);
    bool const has_own = first.way == FirstLayerInput::tiles || first.way == FirstLayerInput::own_bits;
    if (!has_own && !store_.place_first(layer, first)) return;
    first_way_ = first.way;
    first_choice_ = first.choice;
  }

  void finish(std::shared_ptr<NetworkSource const> const& source) {
    if (cuts_layers_) StripCutter<ExecutionSpace, Scalar>(chooser_, store_, planned_).cut(*source);
    if (!planned_.front().strips.empty()) first_way_ = FirstLayerInput::tiles; // kernels that take strips read tiles
    store_.finish([&](bool keeps_all) -> typename LayerStore<ExecutionSpace, Scalar>::MakeImage {
      if (keeps_all) return {};
      return PieceMaker<ExecutionSpace, Scalar>(chooser_, source, planned_);
    });
    bool const needs_copy = first_way_ == FirstLayerInput::bits || first_way_ == FirstLayerInput::counts;
    if (needs_copy && store_.first().index() == 0)
      first_way_ = FirstLayerInput::tiles; // memory was too small for the copy
    for (std::size_t number = 0; store_.stream() != nullptr && number < planned_.size(); ++number) {
      planned_[number].choice = chooser_.streamed(planned_[number].choice);
      planned_[number].segment = store_.segment_of({number, 0});
      for (std::size_t strip = 0; strip < planned_[number].strips.size(); ++strip)
        planned_[number].strips[strip].segment = store_.segment_of({number, strip});
    }
    cutter_.emplace(std::move(planned_), traits_,
                    CutRequest{FirstLayerInput::tiles, {}, reductions_.saturation, reductions_.equal_samples});
  }

  void form_launches() {
    steps_.clear();
    LaunchMaker<ExecutionSpace, Scalar> const maker(store_, *cutter_);
    for (auto const& step : cutter_->steps()) {
      typename Work::HandOver const hand_over{step.lists_live,
                                              step.lists_saturated,
                                              step.joins_equal,
                                              step.keeps_dead,
                                              static_cast<int>(step.next_tile_samples),
                                              saturated_value(),
                                              step.lists_live || step.joins_equal};
      steps_.push_back({step, maker.make(step), hand_over});
    }
  }

  DeviceTraits traits_;
  LayerChooser chooser_;
  LayerSlices const* slices_;
  Reductions reductions_;
  bool cuts_layers_;
  bool is_forced_;                    ///< formats or a kernel were asked for
  std::size_t encoding_limit_;        ///< host memory for layers that are being encoded, in bytes
  std::vector<PlannedLayer> planned_; ///< moves to cutter_ when all layers are known
  std::optional<LaunchCutter> cutter_;
  std::vector<ReadyStep> steps_;
  FirstLayerInput first_way_ = FirstLayerInput::tiles; ///< how layer 0 takes samples whose values are all equal
  LayerChoice first_choice_;                           ///< of its second copy, if that way reads one
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t max_outputs_ = 0;
  EdgeOffset num_edges_ = 0;
  LayerStore<ExecutionSpace, Scalar> store_; ///< last member: its thread uses the members before it
};

} // namespace varve
