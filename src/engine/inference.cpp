#include "engine/inference.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/backends.hpp"
#include "engine/device_views.hpp"
#include "engine/kernel_set.hpp"
#include "engine/layer_loop.hpp"
#include "engine/planned_network.hpp"
#include "engine/results.hpp"
#include "engine/sample_upload.hpp"
#include "network/representable.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
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

namespace {

constexpr bool kHasKokkosKernels = VARVE_HAVE_KOKKOS_KERNELS != 0;

/// Prepares the network on the backend that the options name.
std::unique_ptr<Inference> prepare_on_chosen(NetworkToRun const& network, InferenceOptions const& options) {
  bool const in_double = options.precision == Precision::double_precision;
  auto kernels = on_chosen_backend<VARVE_BACKENDS>(options.backend, [&]<Backend backend>() {
    return in_double ? kernel_set_of<backend, double>() : kernel_set_of<backend, float>();
  });
  return std::make_unique<DeviceInference>(std::move(kernels), network, options);
}

/// Rewritten layers are kept in up to a fourth of the usable host memory; all others are rewritten each time they are
/// read.
constexpr std::size_t kept_part_of_memory = 4;
/// Layers that are read ahead, while earlier ones are rewritten, use up to this part of the same memory.
constexpr std::size_t ahead_part_of_memory = 16;

/// The network with its edges in this order.
NetworkToRun with_order(NetworkToRun network, EdgeOrder order) {
  if (order == EdgeOrder::ascending) return network;
  network.ordered = std::make_shared<OrderedNetwork const>(network.layers, order);
  network.layers = network.ordered;
  return network;
}

using SharedNetwork = std::shared_ptr<NetworkSource const>;

NetworkToRun as_given(SharedNetwork const& network) { return {network, std::nullopt, {}, nullptr}; }

std::unique_ptr<Inference> prepare_varve(SharedNetwork const& network, InferenceOptions const& options) {
  auto const& wanted = options.reductions;
  if (!wanted.rewrites_network()) return prepare_on_chosen(with_order(as_given(network), options.edge_order), options);
  auto const memory = std::min(available_memory(Backend::serial), options.memory_limit.value_or(SIZE_MAX));
  NetworkPasses const passes{wanted.merge_neurons, wanted.fold_constants, wanted.drop_unread};
  auto const keep_source = [network](ReducedNetwork const* reduced) { delete reduced; };
  std::shared_ptr<ReducedNetwork const> const reduced(
      new ReducedNetwork(*network, passes, memory / kept_part_of_memory, memory / ahead_part_of_memory), keep_source);
  return prepare_on_chosen(with_order({reduced, reduced->report(), reduced->output_map(), nullptr}, options.edge_order),
                           options);
}

/// Calls work(name) for each name of a comma-separated list, including empty names.
void for_each_name(std::string const& list, std::function<void(std::string const&)> const& work) {
  for (std::size_t first = 0; first <= list.size();) {
    std::size_t const last = std::min(list.find(',', first), list.size());
    work(list.substr(first, last - first));
    first = last + 1;
  }
}

} // namespace

std::string to_string(Engine engine) {
  switch (engine) {
  case Engine::varve:
    return "varve";
  case Engine::kokkos_kernels:
    return "kokkos-kernels";
  case Engine::reference:
    return "reference";
  }
  throw std::logic_error("varve: unknown engine");
}

Engine parse_engine(std::string const& name) {
  if (name == "varve") return Engine::varve;
  if (name == "reference") return Engine::reference;
  if (name == "kokkos-kernels" && kHasKokkosKernels) return Engine::kokkos_kernels;
  throw UsageError("this build has no engine '" + name + "'; it has: varve, " +
                   (kHasKokkosKernels ? "kokkos-kernels, " : "") + "reference");
}

WeightTraffic& WeightTraffic::operator+=(WeightTraffic const& other) {
  wait_seconds += other.wait_seconds;
  copy_seconds += other.copy_seconds;
  make_seconds += other.make_seconds;
  copied_bytes += other.copied_bytes;
  return *this;
}

Reductions parse_reductions(std::string const& list) {
  if (list == "auto") return {true, true, true, true, true};
  Reductions wanted;
  if (list == "none") return wanted;
  for_each_name(list, [&](std::string const& name) {
    if (name == "merge_neurons") {
      wanted.merge_neurons = true;
    } else if (name == "fold_constants") {
      wanted.fold_constants = true;
    } else if (name == "drop_unread") {
      wanted.drop_unread = true;
    } else if (name == "saturation") {
      wanted.saturation = true;
    } else if (name == "equal_samples") {
      wanted.equal_samples = true;
    } else {
      throw UsageError("there is no reduction '" + name +
                       "'; there are: auto, none, or some of merge_neurons, "
                       "fold_constants, drop_unread, saturation, "
                       "equal_samples");
    }
  });
  return wanted;
}

std::unique_ptr<Inference> prepare(NetworkSource const& network, InferenceOptions const& options) {
  if (options.batch && *options.batch == 0) throw UsageError("a batch needs at least 1 sample");
  if (options.repeat == 0) throw UsageError("the layer loop must run at least once");
  if (options.exchange && options.engine != Engine::varve) {
    throw UsageError("the engine " + to_string(options.engine) + " cannot split neurons across ranks; take varve");
  }
  auto const checked = std::make_shared<RepresentableNetwork const>(network, options.precision);
  switch (options.engine) {
  case Engine::varve:
    return prepare_varve(checked, options);
  case Engine::reference:
    return prepare_reference(with_order(as_given(checked), options.edge_order), options);
  case Engine::kokkos_kernels:
    if constexpr (kHasKokkosKernels) return prepare_kokkos_kernels(*checked, options);
  }
  throw UsageError("this build has no engine " + to_string(options.engine));
}

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
