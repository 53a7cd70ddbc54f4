#include "engine/device_inference.hpp"

#include "core/error.hpp"
#include "core/profiling_region.hpp"
#include "core/stopwatch.hpp"

#include <utility>

namespace varve {
namespace {

/// The memory from which SampleCopy copies columns to a device at the least cost: for a GPU, pinned memory, from which
/// it copies 16-bit columns directly; for the host, memory that kernels read in place.
std::shared_ptr<SampleMemory> upload_memory(DeviceMemory const& memory) {
  SampleMemory::Source const source{[&memory](std::size_t bytes) { return memory.allocate_ahead(bytes); },
                                    [&memory](void* address) { memory.free_ahead(address); }};
  return std::make_shared<SampleMemory>(source, !memory.is_host());
}

} // namespace

std::shared_ptr<SampleMemory> sample_memory_for(InferenceOptions const& options) {
  return options.engine == Engine::varve ? upload_memory(device_memory(options.backend)) : nullptr;
}

DeviceInference::DeviceInference(std::unique_ptr<KernelSet> kernels, NetworkToRun const& network,
                                 InferenceOptions const& options)
    : kernels_(std::move(kernels)),
      planned_(*kernels_, network, options),
      repeat_(options.repeat),
      num_mapped_(network.output_map.size()),
      stream_(kernels_->memory().default_stream()),
      sample_memory_(upload_memory(kernels_->memory())),
      samples_(*kernels_, options.input_name),
      dense_samples_(*kernels_, options.input_name),
      loop_(kernels_->memory()),
      results_(*kernels_) {
  if (num_mapped_ > 0) output_map_ = kernels_->memory().upload("varve::output_map", network.output_map);
}

void DeviceInference::upload_ahead(SampleBatch const& samples) {
  if (samples.num_samples() <= plan().batch && samples.num_neurons() == num_inputs()) samples_.upload(samples);
}

BatchResult DeviceInference::infer(SampleBatch const& samples, WantedOutputs wanted) {
  require_fit(samples.num_samples(), samples.num_neurons());
  BatchResult result;
  run_repeatedly(samples, result);
  ProfilingRegion const region("varve::collect");
  Stopwatch const collect_time;
  auto const counts = count_live(*stream_, result);
  SampleNumbers const numbers{samples.num_samples(), samples.first_sample()};
  results_.collect(*stream_, planned_.panel(), counts, numbers, outputs(), wanted, result);
  finish(counts, samples.num_samples(), collect_time, result);
  return result;
}

BatchResult DeviceInference::infer_on_device(void const* space, DeviceInput const& samples,
                                             DeviceOutput const& activations, SampleIndex first_sample) {
  require_fit(samples.num_rows, samples.num_columns);
  VARVE_REQUIRE(activations.num_rows == samples.num_rows, "activations of another number of samples");
  VARVE_REQUIRE(activations.num_columns == num_outputs(), "activations of another width than the network's output");
  auto const stream = kernels_->memory().stream_of(space);
  BatchResult result;
  Stopwatch const upload_time;
  auto const input = dense_samples_.read(*stream, samples, first_sample);
  planned_.fit_to(input);
  result.upload_seconds = upload_time.seconds();
  run_loop(*stream, input, result);
  ProfilingRegion const region("varve::collect");
  Stopwatch const collect_time;
  auto const counts = count_live(*stream, result);
  results_.write(*stream, planned_.panel(), counts, {samples.num_rows, first_sample}, outputs(), activations, result);
  stream->fence("varve: activations are written");
  finish(counts, samples.num_rows, collect_time, result);
  return result;
}

/// Uploads the samples, runs the layer loop `repeat_` times, and releases the samples.
void DeviceInference::run_repeatedly(SampleBatch const& samples, BatchResult& result) {
  Stopwatch const upload_time;
  auto const input = take_samples(samples);
  struct Release {
    SampleUpload& samples;
    ~Release() { samples.release(); }
  } const release{samples_};
  planned_.fit_to(input);
  result.upload_seconds = upload_time.seconds();
  run_loop(*stream_, input, result);
}

/// Runs the layer loop `repeat_` times.
void DeviceInference::run_loop(Stream const& stream, SamplesOnDevice const& input, BatchResult& result) {
  bool const is_own_stream = &stream == stream_.get(); // a caller's stream may be a new one each time
  bool const again = is_own_stream && loop_.can_run_again(planned_.network(), plan().batch);
  for (std::size_t repetition = 0; repetition < repeat_; ++repetition) {
    stream.fence("varve: before the layer loop");
    Stopwatch const loop_time;
    if (again) loop_.run_again(stream, input, planned_.network(), planned_.panel(), planned_.num_changes());
    if (!again) loop_.run(stream, input, planned_.network(), planned_.panel(), planned_.gather());
    stream.fence("varve: after the layer loop");
    result.loop_seconds.push_back(loop_time.seconds());
  }
  if (planned_.gather() == nullptr) return;
  result.exchange_seconds = planned_.gather()->seconds();
  result.exchange_bytes = planned_.gather()->bytes_received();
}

SamplesOnDevice DeviceInference::take_samples(SampleBatch const& samples) {
  ProfilingRegion const region("varve::upload"); // not in upload_ahead(): tools have one stack of regions per process
  return samples_.take(samples);
}

void DeviceInference::require_fit(std::size_t num_samples, std::size_t num_neurons) const {
  VARVE_REQUIRE(num_samples <= plan().batch, "a batch larger than planned");
  VARVE_REQUIRE(num_neurons == num_inputs(), "samples of another width than the network's input");
}

PanelOutputs DeviceInference::outputs() const {
  return {num_mapped_ > 0 ? output_map_.as<NeuronIndex>() : nullptr, num_outputs(),
          planned_.network().saturated_value()};
}

/// The number of live samples after each list of the last run. Adds the edges computed for them to `result`.
std::vector<int> DeviceInference::count_live(Stream const& stream, BatchResult& result) {
  auto counts = results_.fetch_counts(stream, planned_.panel());
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
void DeviceInference::finish(std::vector<int> const& counts, std::size_t num_samples, Stopwatch const& collect_time,
                             BatchResult& result) {
  planned_.learn(counts, loop_.lists_before(), num_samples);
  result.collect_seconds = collect_time.seconds();
  result.samples = samples_.take_traffic();
  result.weights = planned_.network().take_traffic();
}

} // namespace varve
