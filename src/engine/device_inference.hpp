#pragma once

#include "engine/backends.hpp"
#include "engine/dense_samples.hpp"
#include "engine/device_views.hpp"
#include "engine/inference.hpp"
#include "engine/layer_loop.hpp"
#include "engine/planned_network.hpp"
#include "engine/results.hpp"
#include "engine/sample_upload.hpp"
#include "engine/step_samples.hpp"
#include "engine/upload_memory.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <vector>

namespace varve {

/// Varve's own engine on one execution space: uploads a batch, or takes one that lies on the device, runs the layer
/// loop options.repeat times, collects the results, and gives the plan the numbers of live samples to learn from.
template <class ExecutionSpace, class Scalar>
class DeviceInference final : public Inference, public InferenceOnDevice, public StepSamples {
public:
  DeviceInference(NetworkToRun const& network, InferenceOptions const& options)
      : planned_(network, options),
        repeat_(options.repeat),
        samples_(options.input_name),
        dense_samples_(options.input_name),
        results_(space_) {
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

  std::shared_ptr<SampleMemory> sample_memory() override { return sample_memory_; }

  BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) override {
    require_fit(samples.num_samples(), samples.num_neurons());
    BatchResult result;
    run_repeatedly(samples, result);
    ProfilingRegion const region("varve::collect");
    Stopwatch const collect_time;
    results_.run_in(space_);
    auto const counts = count_live(result);
    SampleNumbers const numbers{samples.num_samples(), samples.first_sample()};
    results_.collect(planned_.panel(), counts, numbers, outputs(), wanted, result);
    finish(counts, samples.num_samples(), collect_time, result);
    return result;
  }

  BatchResult infer_on_device(void const* space_address, DeviceInput const& samples, DeviceOutput const& activations,
                              SampleIndex first_sample) override {
    auto const& space = *static_cast<ExecutionSpace const*>(space_address);
    require_fit(samples.num_rows, samples.num_columns);
    VARVE_REQUIRE(activations.num_rows == samples.num_rows, "activations of another number of samples");
    VARVE_REQUIRE(activations.num_columns == num_outputs(), "activations of another width than the network's output");
    BatchResult result;
    Stopwatch const upload_time;
    auto const input = dense_samples_.read(space, rows_of<Scalar const>(samples), first_sample);
    planned_.fit_to(input);
    result.upload_seconds = upload_time.seconds();
    run_loop(space, input, result);
    ProfilingRegion const region("varve::collect");
    Stopwatch const collect_time;
    results_.run_in(space);
    auto const counts = count_live(result);
    results_.write(planned_.panel(), counts, {samples.num_rows, first_sample}, outputs(), rows_of<Scalar>(activations),
                   result);
    space.fence("varve: activations are written");
    results_.run_in(space_); // the caller may end the instance
    finish(counts, samples.num_rows, collect_time, result);
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
    run_loop(space_, input, result);
  }

  /// Runs the layer loop `repeat_` times.
  void run_loop(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, Scalar> const& input, BatchResult& result) {
    bool const is_own_space = &space == &space_; // a caller's may be a new one each time
    bool const again = is_own_space && loop_.can_run_again(planned_.network(), plan().batch);
    for (std::size_t repetition = 0; repetition < repeat_; ++repetition) {
      space.fence("varve: before the layer loop");
      Stopwatch const loop_time;
      if (again) loop_.run_again(space, input, planned_.network(), planned_.panel(), planned_.num_changes());
      if (!again) loop_.run(space, input, planned_.network(), planned_.panel(), planned_.gather());
      space.fence("varve: after the layer loop");
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

  void require_fit(std::size_t num_samples, std::size_t num_neurons) const {
    VARVE_REQUIRE(num_samples <= plan().batch, "a batch larger than planned");
    VARVE_REQUIRE(num_neurons == num_inputs(), "samples of another width than the network's input");
  }

  template <class Element, class Address>
  static DenseRows<Element> rows_of(DeviceMatrix<Address> const& matrix) {
    return {static_cast<Element*>(matrix.data), matrix.num_rows, matrix.num_columns, matrix.row_stride,
            matrix.column_stride};
  }

  typename Results<ExecutionSpace, Scalar>::Outputs outputs() const {
    return {output_map_, num_outputs(), planned_.network().saturated_value()};
  }

  /// The number of live samples after each list of the last run. Adds the edges that they took.
  std::vector<int> count_live(BatchResult& result) {
    auto counts = results_.fetch_counts(planned_.panel());
    auto const& lists_before = loop_.lists_before();
    step_samples_.clear();
    for (std::size_t i = 0; i < lists_before.size(); ++i) {
      int const count = counts[static_cast<std::size_t>(lists_before[i])];
      step_samples_.push_back(static_cast<std::size_t>(count));
      result.live_edges += static_cast<double>(planned_.edges_of(i)) * count;
    }
    return counts;
  }

  /// Gives the plan the numbers of live samples and ends a batch.
  void finish(std::vector<int> const& counts, std::size_t num_samples, Stopwatch const& collect_time,
              BatchResult& result) {
    planned_.learn(counts, loop_.lists_before(), num_samples);
    result.collect_seconds = collect_time.seconds();
    result.samples = samples_.take_traffic();
    result.weights = planned_.network().take_traffic();
  }

  PlannedNetwork<ExecutionSpace, Scalar> planned_;
  std::size_t repeat_;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> output_map_; ///< see NetworkToRun
  ExecutionSpace space_;
  std::shared_ptr<SampleMemory> sample_memory_ = upload_memory<ExecutionSpace>();
  SampleUpload<ExecutionSpace, Scalar> samples_;
  DenseSamples<ExecutionSpace, Scalar> dense_samples_;
  LayerLoop<ExecutionSpace, Scalar> loop_;
  Results<ExecutionSpace, Scalar> results_;
  std::vector<std::size_t> step_samples_; ///< see StepSamples
};

} // namespace varve
