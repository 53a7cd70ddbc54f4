#pragma once

#include "engine/backends.hpp"
#include "engine/inference.hpp"
#include "engine/layer_loop.hpp"
#include "engine/planned_network.hpp"
#include "engine/results.hpp"
#include "engine/sample_upload.hpp"
#include "engine/step_samples.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <vector>

namespace varve {

/// Varve's own engine on one execution space: uploads a batch, runs the layer loop options.repeat times, collects the
/// results, and gives the plan the numbers of live samples to learn from.
template <class ExecutionSpace, class Scalar>
class DeviceInference final : public Inference, public StepSamples {
public:
  DeviceInference(NetworkToRun const& network, InferenceOptions const& options)
      : planned_(network, options), repeat_(options.repeat), samples_(options.input_name), results_(space_) {
    if (!network.output_map.empty()) output_map_ = upload<ExecutionSpace>("varve::output_map", network.output_map);
  }

  std::size_t num_inputs() const override { return planned_.network().num_inputs(); }
  std::size_t num_outputs() const override {
    return output_map_.size() > 0 ? output_map_.size() : planned_.network().num_outputs();
  }
  std::size_t num_layers() const override { return planned_.network().num_layers(); }
  EdgeOffset num_edges() const override { return planned_.num_edges(); }

  Plan const& plan(InputShape const& input) override { return planned_.plan_for(input); }
  Plan const& plan() const override { return planned_.plan(); }
  std::vector<std::size_t> const& step_samples() const override { return step_samples_; }

  void upload_ahead(SampleBatch const& samples) override {
    if (samples.num_samples() <= plan().batch && samples.num_neurons() == num_inputs()) samples_.upload(samples);
  }

  BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) override {
    VARVE_REQUIRE(samples.num_samples() <= plan().batch, "a batch larger than planned");
    VARVE_REQUIRE(samples.num_neurons() == num_inputs(), "samples of another width than the network's input");
    BatchResult result;
    run_repeatedly(samples, result);
    collect(samples, wanted, result);
    return result;
  }

private:
  /// Uploads the samples, runs the layer loop `repeat_` times, and releases the samples.
  void run_repeatedly(SampleBatch const& samples, BatchResult& result) {
    Stopwatch const upload_time;
    auto const input = take_samples(samples);
    struct Release {
      SampleUpload<ExecutionSpace, Scalar>& samples;
      ~Release() { samples.release(); }
    } const release{samples_};
    planned_.fit_to(input);
    result.upload_seconds = upload_time.seconds();
    for (std::size_t repetition = 0; repetition < repeat_; ++repetition) {
      space_.fence("varve: before the layer loop");
      Stopwatch const loop_time;
      loop_.run(space_, input, planned_.network(), planned_.panel(), planned_.gather());
      space_.fence("varve: after the layer loop");
      result.loop_seconds.push_back(loop_time.seconds());
    }
    if (planned_.gather() == nullptr) return;
    result.exchange_seconds = planned_.gather()->seconds();
    result.exchange_bytes = planned_.gather()->bytes_received();
  }

  DeviceSamples<ExecutionSpace, Scalar> take_samples(SampleBatch const& samples) {
    ProfilingRegion const region(
        "varve::upload"); // not in upload_ahead(): tools keep one stack of regions for a process
    return samples_.take(samples);
  }

  void collect(SampleBatch const& samples, WantedOutputs wanted, BatchResult& result) {
    ProfilingRegion const region("varve::collect");
    Stopwatch const collect_time;
    auto const& panel = planned_.panel();
    auto const counts = results_.fetch_counts(panel);
    auto const& lists_before = loop_.lists_before();
    step_samples_.clear();
    for (std::size_t i = 0; i < lists_before.size(); ++i) {
      int const count = counts[static_cast<std::size_t>(lists_before[i])];
      step_samples_.push_back(static_cast<std::size_t>(count));
      result.live_edges += static_cast<double>(planned_.edges_of(i)) * count;
    }
    results_.collect(panel, counts, samples, {output_map_, num_outputs(), planned_.network().saturated_value()}, wanted,
                     result);
    planned_.learn(counts, lists_before, samples.num_samples());
    result.collect_seconds = collect_time.seconds();
    result.samples = samples_.take_traffic();
    result.weights = planned_.network().take_traffic();
  }

  PlannedNetwork<ExecutionSpace, Scalar> planned_;
  std::size_t repeat_;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> output_map_; ///< see NetworkToRun
  ExecutionSpace space_;
  SampleUpload<ExecutionSpace, Scalar> samples_;
  LayerLoop<ExecutionSpace, Scalar> loop_;
  Results<ExecutionSpace, Scalar> results_;
  std::vector<std::size_t> step_samples_; ///< see StepSamples
};

} // namespace varve
