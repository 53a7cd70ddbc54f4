#include "core/config.hpp"
#include "core/error.hpp"
#include "core/repeated_launches.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/backends.hpp"
#include "engine/kernel_set.hpp"
#include "engine/planned_network.hpp"
#include "engine/results.hpp"
#include "engine/sample_upload.hpp"

#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

using ReadyStep = DeviceNetwork::ReadyStep;

constexpr std::size_t steps_at_a_time = 32;
constexpr std::size_t max_recorded = 1U << 17; ///< with more samples, Kokkos's scan lists live samples

void forward(Stream const& stream, ReadyStep const& step, Panel& panel) {
  step.work->forward(stream, panel, step.hand_over);
}

/// Computes this rank's neurons without listing live samples, which are known only after the ranks' parts are joined.
void forward_part(Stream const& stream, ReadyStep const& step, Panel& panel) {
  HandOver hand_over;
  hand_over.lists_live = false;
  hand_over.tile_samples = step.work->tile_samples();
  step.work->forward(stream, panel, hand_over);
}

/// By layer: samples of the tiles that its step writes.
std::vector<int> tile_samples(std::vector<ReadyStep> const& steps) {
  std::vector<int> samples;
  for (auto const& step : steps) {
    if (step.step.ends_layer()) samples.push_back(step.work->tile_samples());
  }
  return samples;
}

/// True if no sample is left for the rest of the network. If saturated samples leave early, this copies a count from
/// the device, so it is checked at every 32nd step only.
bool has_no_live_samples(Stream const& stream, std::size_t step, DeviceNetwork const& network, Panel const& panel) {
  if (network.has_slices()) return panel.max_samples() == 0; // the same on all ranks
  if (network.saturates_from() == network.num_layers()) return false;
  return step > 0 && step % steps_at_a_time == 0 && panel.count_samples(stream) == 0;
}

/// Computes a network for all samples of a panel, step by step of its plan: launches kernels and, if neurons are split
/// across ranks, exchanges activations. Allocates nothing.
class LayerLoop {
public:
  explicit LayerLoop(DeviceMemory const& memory) : memory_(memory), launches_(memory) {}

  /// run() at the least host cost for launches that repeat an earlier call. num_changes: number of changes of network
  /// and panel so far.
  void run_again(Stream const& stream, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
                 std::size_t num_changes) {
    if (num_changes != num_changes_) launches_.forget();
    num_changes_ = num_changes;
    Key const key{samples.row_pointers, samples.columns, samples.values, samples.value_stride, samples.num_samples};
    auto const [progress, lists_before] = launches_.run(stream, key, [&](Stream const& launch_stream) {
      run(launch_stream, samples, network, panel, nullptr);
      return After(panel.progress(), lists_before_);
    });
    panel.take_progress(samples, progress);
    lists_before_ = lists_before;
  }

  /// True if no launch of a run depends on something that the host reads from the device during the run, so that
  /// run_again() may start all of them together.
  bool can_run_again(DeviceNetwork const& network, std::size_t num_samples) const {
    if (!memory_.can_record() || network.has_slices() || network.stream() || num_samples > max_recorded) return false;
    bool const asks = network.saturates_from() != network.num_layers() && network.steps().size() > steps_at_a_time;
    for (auto const& step : network.steps()) {
      if (step.hand_over.joins_equal) return false; // Kokkos allocates for its scan
    }
    return !asks;
  }

  /// Writes the samples to the panel and computes all layers. `gather`: null unless neurons are split across ranks.
  void run(Stream const& stream, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
           ActivationGather* gather) {
    ProfilingRegion const region("varve::layer_loop");
    auto const& steps = network.steps();
    lists_before_.clear();
    panel.start(stream, samples);
    if (gather != nullptr) gather->start(tile_samples(steps));
    for (std::size_t number = 0; number < steps.size() && !has_no_live_samples(stream, number, network, panel);
         ++number) {
      lists_before_.push_back(panel.num_lists());
      network.acquire(stream, steps[number]); // the step's weights are on the device from here on
      if (gather == nullptr) {
        forward(stream, steps[number], panel); // sparse product, bias, activation; then dead samples leave
      } else {
        forward_part(stream, steps[number], panel); // sparse product, bias, activation for this rank's neurons
        if (steps[number].step.ends_layer())
          gather->gather(stream, panel, steps[number].step.first_layer, steps[number].hand_over.tile_samples,
                         steps[number].hand_over.keeps_dead);
      }
    }
    network.finish_run(stream);
  }

  /// For each step of the last run: the number of lists of live samples made before it.
  std::vector<int> const& lists_before() const { return lists_before_; }

private:
  using Key = std::tuple<EdgeOffset const*, NeuronIndex const*, void const*, int, int>; ///< the samples
  using After = std::tuple<Panel::Progress, std::vector<int>>;

  DeviceMemory const& memory_;
  std::vector<int> lists_before_;
  RepeatedLaunches<Key, After> launches_;
  std::size_t num_changes_ = 0;
};

/// The memory from which SampleCopy copies columns to a device at the least cost: for a GPU, pinned memory, from which
/// it copies 16-bit columns directly; for the host, memory that kernels read in place.
std::shared_ptr<SampleMemory> upload_memory(DeviceMemory const& memory) {
  SampleMemory::Source const source{[&memory](std::size_t bytes) { return memory.allocate_ahead(bytes); },
                                    [&memory](void* address) { memory.free_ahead(address); }};
  return std::make_shared<SampleMemory>(source, !memory.is_host());
}

/// Varve's own engine on one device: uploads a batch, or uses one that is on the device, runs the layer loop
/// options.repeat times, collects the results, and passes the numbers of live samples to the plan.
class DeviceInference final : public Inference, public InferenceOnDevice {
public:
  DeviceInference(std::unique_ptr<KernelSet> kernels, NetworkToRun const& network, InferenceOptions const& options)
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
    if (num_mapped_ > 0) output_map_ = new_copy(kernels_->memory(), "varve::output_map", network.output_map);
  }

  std::size_t num_inputs() const override { return planned_.network().num_inputs(); }
  std::size_t num_outputs() const override { return num_mapped_ > 0 ? num_mapped_ : planned_.network().num_outputs(); }
  std::size_t num_layers() const override { return planned_.network().num_layers(); }
  EdgeOffset num_edges() const override { return planned_.num_edges(); }

  Plan const& plan(InputShape const& input) override { return planned_.plan_for(input); }
  Plan const& plan() const override { return planned_.plan(); }
  std::vector<std::size_t> step_samples() const override { return step_samples_; }

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
    auto const counts = count_live(*stream_, result);
    SampleNumbers const numbers{samples.num_samples(), samples.first_sample()};
    results_.collect(*stream_, planned_.panel(), counts, numbers, outputs(), wanted, result);
    finish(counts, samples.num_samples(), collect_time, result);
    return result;
  }

  BatchResult infer_on_device(void const* space, DeviceInput const& samples, DeviceOutput const& activations,
                              SampleIndex first_sample) override {
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

private:
  /// Uploads the samples, runs the layer loop `repeat_` times, and releases the samples.
  void run_repeatedly(SampleBatch const& samples, BatchResult& result) {
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
  void run_loop(Stream const& stream, SamplesOnDevice const& input, BatchResult& result) {
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

  SamplesOnDevice take_samples(SampleBatch const& samples) {
    ProfilingRegion const region("varve::upload"); // not in upload_ahead(): tools have one stack of regions per process
    return samples_.take(samples);
  }

  void require_fit(std::size_t num_samples, std::size_t num_neurons) const {
    VARVE_REQUIRE(num_samples <= plan().batch, "a batch larger than planned");
    VARVE_REQUIRE(num_neurons == num_inputs(), "samples of another width than the network's input");
  }

  PanelOutputs outputs() const {
    return {num_mapped_ > 0 ? output_map_.data() : nullptr, num_outputs(), planned_.network().saturated_value()};
  }

  /// The number of live samples after each list of the last run. Adds the edges computed for them to `result`.
  std::vector<int> count_live(Stream const& stream, BatchResult& result) {
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
  void finish(std::vector<int> const& counts, std::size_t num_samples, Stopwatch const& collect_time,
              BatchResult& result) {
    planned_.learn(counts, loop_.lists_before(), num_samples);
    result.collect_seconds = collect_time.seconds();
    result.samples = samples_.take_traffic();
    result.weights = planned_.network().take_traffic();
  }

  std::unique_ptr<KernelSet> kernels_;
  PlannedNetwork planned_;
  std::size_t repeat_;
  DeviceNumbers<NeuronIndex> output_map_; ///< see NetworkToRun
  std::size_t num_mapped_;                ///< outputs in output_map_
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<SampleMemory> sample_memory_;
  SampleUpload samples_;
  DenseSamples dense_samples_;
  LayerLoop loop_;
  Results results_;
  std::vector<std::size_t> step_samples_; ///< see step_samples()
};

} // namespace

std::shared_ptr<SampleMemory> sample_memory_for(InferenceOptions const& options) {
  return options.engine == Engine::varve ? upload_memory(device_memory(options.backend)) : nullptr;
}

std::unique_ptr<Inference> prepare_on_device(NetworkToRun const& network, InferenceOptions const& options) {
  bool const in_double = options.precision == Precision::double_precision;
  auto kernels = on_chosen_backend<VARVE_BACKENDS>(options.backend, [&]<Backend backend>() {
    return in_double ? kernel_set_of<backend, double>() : kernel_set_of<backend, float>();
  });
  return std::make_unique<DeviceInference>(std::move(kernels), network, options);
}

} // namespace varve
