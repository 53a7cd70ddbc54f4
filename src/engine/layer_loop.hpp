#pragma once

#include "engine/activation_gather.hpp"
#include "engine/backends.hpp"
#include "engine/device_network.hpp"
#include "engine/inference.hpp"
#include "engine/panel.hpp"
#include "engine/results.hpp"
#include "engine/sample_upload.hpp"
#include "plan/memory.hpp"
#include "plan/sentences.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Carries a plan out on one execution space: uploads samples, runs the layer loop, collects results, and learns from
/// them.
template <class ExecutionSpace, class Scalar>
class LayerLoop final : public Inference {
public:
  LayerLoop(NetworkToRun const& network, InferenceOptions const& options)
      : options_(possible(options)),
        limits_(memory_limits(options, options.backend)),
        source_(network.layers),
        ordered_(network.ordered),
        slices_(slices_of(*source_, options)),
        network_(slices_ ? slices_ : source_, options_, limits_, slices_.get()),
        reduction_(network.reduction),
        samples_(options.input_name),
        results_(space_) {
    if (slices_) gather_.emplace(*slices_, *options.exchange);
    if (!network.output_map.empty()) output_map_ = upload<ExecutionSpace>("varve::output_map", network.output_map);
  }

  std::size_t num_inputs() const override { return network_.num_inputs(); }
  std::size_t num_outputs() const override {
    return output_map_.size() > 0 ? output_map_.size() : network_.num_outputs();
  }
  std::size_t num_layers() const override { return network_.num_layers(); }
  EdgeOffset num_edges() const override {
    if (reduction_) return reduction_->edges_before;
    return slices_ ? slices_->num_edges() : network_.num_edges();
  }

  Plan const& plan(InputShape const& input) override {
    is_without_tiles_ = network_.plan_for(input.has_one_value);
    std::size_t const entries_per_sample =
        input.num_samples == 0 ? 0 : (input.num_entries + input.num_samples - 1) / input.num_samples;
    std::size_t const sample_bytes =
        SampleUpload<ExecutionSpace, Scalar>::bytes_per_sample(entries_per_sample, input.has_one_value);
    auto const bytes_of = [&](std::size_t samples) { return panel_bytes(samples) + samples * sample_bytes; };
    BatchRequest const request{input.num_samples,           options_.batch, enough_to_exchange(), network_.bytes(),
                               PanelType::slot_granularity, max_slots};
    plan_.batch = choose_batch(request, limits_.device, bytes_of);
    allocate_panel();
    plan_.sample_bytes = plan_.batch * sample_bytes;
    state_plan();
    return plan_;
  }
  Plan const& plan() const override { return plan_; }

  void upload_ahead(SampleBatch const& samples) override {
    if (samples.num_samples() <= plan_.batch && samples.num_neurons() == num_inputs()) samples_.upload(samples);
  }

  BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) override {
    VARVE_REQUIRE(samples.num_samples() <= plan_.batch, "a batch larger than planned");
    VARVE_REQUIRE(samples.num_neurons() == num_inputs(), "samples of another width than the network's input");
    BatchResult result;
    run_repeatedly(samples, result);
    if (gather_) {
      result.exchange_seconds = gather_->seconds();
      result.exchange_bytes = gather_->bytes_received();
    }
    collect(samples, wanted, result);
    result.samples = samples_.take_traffic();
    result.weights = network_.take_traffic();
    return result;
  }

private:
  using PanelType = Panel<ExecutionSpace, Scalar>;
  static constexpr std::size_t max_slots = 1U << 30;

  /// This rank's part of the network, if its neurons are split.
  static std::shared_ptr<LayerSlices const> slices_of(NetworkSource const& network, InferenceOptions const& options) {
    if (!options.exchange) return nullptr;
    return std::make_shared<LayerSlices const>(network, options.exchange->rank(), options.exchange->num_ranks());
  }

  /// Where neurons are split, each rank knows too little to find saturated samples, and equal ones are not worth it.
  static InferenceOptions possible(InferenceOptions options) {
    if (options.exchange) options.reductions.saturation = options.reductions.equal_samples = false;
    return options;
  }

  /// What the network's steps are now, and what they need.
  void state_plan() {
    plan_.engine = to_string(Engine::varve);
    plan_.device = device_name(options_.backend);
    plan_.reduction = reduction_;
    if (ordered_) plan_.edge_order = ordered_->report();
    if (slices_) {
      plan_.method = "neurons split over " + std::to_string(options_.exchange->num_ranks()) +
                     " ranks, who exchange the activations of each layer; saturated or equal samples are not sought";
    }
    if (network_.saturates_from() < network_.num_layers()) plan_.saturates_from = network_.saturates_from();
    plan_.steps.clear();
    for (auto const& ready : network_.steps()) plan_.steps.push_back(ready.step);
    plan_.stream = network_.stream();
    plan_.weight_bytes = network_.bytes();
    plan_.panel_bytes = panel_bytes(plan_.batch);
  }

  typename PanelType::Size panel_size(std::size_t samples) const {
    return {samples, network_.max_neurons(is_without_tiles_), 2 * network_.num_layers() + 1,
            is_without_tiles_ && network_.reads_bits() ? num_inputs() : 0, options_.reductions.equal_samples};
  }
  std::size_t panel_bytes(std::size_t samples) const {
    std::size_t const part_bytes = gather_ ? gather_->bytes(samples, network_.max_neurons(is_without_tiles_)) : 0;
    return PanelType::bytes(panel_size(samples)) + part_bytes;
  }

  /// Samples whose exchange takes so long that more at a time would make it no faster per sample.
  std::optional<std::size_t> enough_to_exchange() const {
    if (!gather_) return std::nullopt;
    constexpr std::size_t bytes = std::size_t(1) << 30U;
    std::size_t const step = PanelType::slot_granularity;
    return std::max<std::size_t>(1, bytes / gather_->bytes(step, network_.max_neurons(false))) * step;
  }

  void allocate_panel() {
    panel_ = PanelType(); // the old one goes before the new one comes
    panel_ = PanelType(panel_size(plan_.batch));
    if (gather_) gather_->allocate(plan_.batch, network_.max_neurons(is_without_tiles_));
  }

  /// A new plan for samples of several values, which the plan did not expect.
  void take_any_values() {
    is_without_tiles_ = network_.plan_for(false);
    if (network_.bytes() + panel_bytes(plan_.batch) > limits_.device)
      batch_exceeds_memory(plan_.batch, panel_bytes(plan_.batch), network_.bytes(), limits_.device, 0);
    allocate_panel();
    state_plan();
  }

  /// The layer loop as often as it was asked for. Then the samples may go.
  void run_repeatedly(SampleBatch const& samples, BatchResult& result) {
    Stopwatch const upload_time;
    auto const input = take_samples(samples);
    struct Release {
      SampleUpload<ExecutionSpace, Scalar>& samples;
      ~Release() { samples.release(); }
    } const release{samples_};
    if (is_without_tiles_ && input.value_stride != 0) take_any_values();
    result.upload_seconds = upload_time.seconds();
    for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
      space_.fence("varve: before the layer loop");
      Stopwatch const loop_time;
      run(input);
      space_.fence("varve: after the layer loop");
      result.loop_seconds.push_back(loop_time.seconds());
    }
  }

  DeviceSamples<ExecutionSpace, Scalar> take_samples(SampleBatch const& samples) {
    ProfilingRegion const region("varve::upload"); // regions are for this thread: tools keep one stack of them
    return samples_.take(samples);
  }

  /// The layer loop: everything between the two fences that are timed.
  void run(DeviceSamples<ExecutionSpace, Scalar> const& input) {
    ProfilingRegion const region("varve::layer_loop");
    panel_.start(space_, input);
    lists_before_.clear();
    auto const& steps = network_.steps();
    if (gather_) gather_->start(tile_samples());
    for (std::size_t number = 0; number < steps.size() && !nobody_is_left(number); ++number) {
      lists_before_.push_back(panel_.num_lists());
      network_.acquire(space_, steps[number]);
      if (gather_) {
        forward_and_gather(number);
      } else {
        steps[number].work->forward(space_, panel_, steps[number].hand_over);
      }
    }
    network_.finish_run(space_);
  }

  /// One layer where neurons are split: this rank's, then all.
  void forward_and_gather(std::size_t layer) {
    auto const& [step, work, whole_hand_over] = network_.steps()[layer];
    typename Launch<ExecutionSpace, Scalar>::HandOver hand_over;
    hand_over.lists_live = false; // before all is known
    hand_over.tile_samples = work->tile_samples();
    work->forward(space_, panel_, hand_over);
    gather_->gather(space_, panel_, layer, whole_hand_over.tile_samples, whole_hand_over.keeps_dead);
  }

  std::vector<int> tile_samples() const {
    std::vector<int> samples;
    for (auto const& step : network_.steps()) samples.push_back(step.work->tile_samples());
    return samples;
  }

  /// Looked for where saturated samples leave before the end, once in many launches, for it takes a copy from the
  /// device.
  bool nobody_is_left(std::size_t step) {
    constexpr std::size_t steps_at_a_time = 32;
    if (gather_) return panel_.max_samples() == 0; // all ranks know
    if (network_.saturates_from() == network_.num_layers()) return false;
    return step > 0 && step % steps_at_a_time == 0 && panel_.count_samples(space_) == 0;
  }

  void collect(SampleBatch const& samples, WantedOutputs wanted, BatchResult& result) {
    ProfilingRegion const region("varve::collect");
    Stopwatch const collect_time;
    auto const counts = results_.fetch_counts(panel_);
    for (std::size_t i = 0; i < lists_before_.size(); ++i)
      result.live_edges += static_cast<double>(edges_of(i)) * counts[static_cast<std::size_t>(lists_before_[i])];
    results_.collect(panel_, counts, samples,
                     {output_map_.size() > 0 ? output_map_.data() : nullptr, num_outputs(), network_.saturated_value()},
                     wanted, result);
    if (!gather_) learn(counts, samples.num_samples());
    result.collect_seconds = collect_time.seconds();
  }

  /// Edges of a step, on all ranks together.
  EdgeOffset edges_of(std::size_t step) const {
    return slices_ ? slices_->whole(step).num_edges : network_.steps()[step].step.choice.num_edges;
  }

  /// Tells the network how many samples were left after which layers.
  void learn(std::vector<int> const& counts, std::size_t num_samples) {
    constexpr std::size_t few = 1024; // samples, which say little of others
    if (num_samples < few) return;
    auto const share_of = [&](int list) {
      return static_cast<double>(counts[static_cast<std::size_t>(list)]) / static_cast<double>(num_samples);
    };
    std::vector<LiveShare> known{{0, 1.0}};
    for (std::size_t i = 1; i < lists_before_.size(); ++i) {
      if (lists_before_[i] == lists_before_[i - 1]) continue; // not counted
      known.push_back({network_.steps()[i].step.first_layer, share_of(lists_before_[i])});
    }
    known.push_back({num_layers(), share_of(panel_.num_lists())});
    if (network_.learn(known, num_samples)) state_plan();
  }

  InferenceOptions options_;
  MemoryLimits limits_;
  std::shared_ptr<NetworkSource const> source_;   ///< of the slices
  std::shared_ptr<OrderedNetwork const> ordered_; ///< the same network, if its edges need not ascend
  std::shared_ptr<LayerSlices const>
      slices_; ///< where neurons are split across ranks; then gather_ joins what they compute
  DeviceNetwork<ExecutionSpace, Scalar> network_;
  std::optional<ActivationGather<ExecutionSpace, Scalar>> gather_;
  std::optional<ReductionReport> reduction_;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> output_map_;
  ExecutionSpace space_;
  SampleUpload<ExecutionSpace, Scalar> samples_;
  PanelType panel_;
  Results<ExecutionSpace, Scalar> results_;
  Plan plan_;
  std::vector<int> lists_before_; ///< for each step, after how many lists of live samples it ran
  bool is_without_tiles_ = false; ///< the panel has no room for the inputs, for the steps do not bring them into tiles
};

} // namespace varve
