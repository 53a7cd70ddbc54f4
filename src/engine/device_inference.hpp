#pragma once

#include "engine/backends.hpp"
#include "engine/device_views.hpp"
#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"
#include "engine/layer_loop.hpp"
#include "engine/planned_network.hpp"
#include "engine/results.hpp"
#include "engine/sample_upload.hpp"

#include <memory>
#include <vector>

namespace varve {

class Stopwatch;

/// Varve's own engine on one device: uploads a batch, or uses one that is on the device, runs the layer loop
/// options.repeat times, collects the results, and passes the numbers of live samples to the plan.
class DeviceInference final : public Inference, public InferenceOnDevice, public StepSamples {
public:
  DeviceInference(std::unique_ptr<KernelSet> kernels, NetworkToRun const& network, InferenceOptions const& options);

  std::size_t num_inputs() const override { return planned_.network().num_inputs(); }
  std::size_t num_outputs() const override { return num_mapped_ > 0 ? num_mapped_ : planned_.network().num_outputs(); }
  std::size_t num_layers() const override { return planned_.network().num_layers(); }
  EdgeOffset num_edges() const override { return planned_.num_edges(); }

  Plan const& plan(InputShape const& input) override { return planned_.plan_for(input); }
  Plan const& plan() const override { return planned_.plan(); }
  std::vector<std::size_t> const& step_samples() const override { return step_samples_; }

  void upload_ahead(SampleBatch const& samples) override;
  std::shared_ptr<SampleMemory> sample_memory() override { return sample_memory_; }
  BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) override;
  BatchResult infer_on_device(void const* space, DeviceInput const& samples, DeviceOutput const& activations,
                              SampleIndex first_sample) override;

private:
  void run_repeatedly(SampleBatch const& samples, BatchResult& result);
  void run_loop(Stream const& stream, SamplesOnDevice const& input, BatchResult& result);
  SamplesOnDevice take_samples(SampleBatch const& samples);
  void require_fit(std::size_t num_samples, std::size_t num_neurons) const;
  PanelOutputs outputs() const;
  std::vector<int> count_live(Stream const& stream, BatchResult& result);
  void finish(std::vector<int> const& counts, std::size_t num_samples, Stopwatch const& collect_time,
              BatchResult& result);

  std::unique_ptr<KernelSet> kernels_;
  PlannedNetwork planned_;
  std::size_t repeat_;
  DeviceBytes output_map_; ///< see NetworkToRun
  std::size_t num_mapped_; ///< outputs in output_map_
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<SampleMemory> sample_memory_;
  SampleUpload samples_;
  DenseSamples dense_samples_;
  LayerLoop loop_;
  Results results_;
  std::vector<std::size_t> step_samples_; ///< see StepSamples
};

} // namespace varve
