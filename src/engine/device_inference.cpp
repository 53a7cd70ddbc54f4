#include "core/config.hpp"
#include "core/error.hpp"
#include "core/repeated_launches.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/backends.hpp"
#include "engine/device_network.hpp"
#include "engine/kernel_set.hpp"
#include "engine/neuron_split.hpp"
#include "engine/results.hpp"
#include "engine/sample_copy.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t max_slots = 1U << 30;

/// This rank's part of the network, if its neurons are split.
std::shared_ptr<LayerSlices const> slices_of(NetworkSource const& network, InferenceOptions const& options) {
  if (!options.exchange) return nullptr;
  return std::make_shared<LayerSlices const>(network, static_cast<int>(options.exchange->rank()),
                                             static_cast<int>(options.exchange->num_ranks()));
}

/// The options without those that are impossible: with neurons split across ranks, no rank sees whole samples, so
/// saturated and equal samples are not searched.
InferenceOptions possible(InferenceOptions options) {
  if (options.exchange) options.reductions.saturation = options.reductions.equal_samples = false;
  return options;
}

using ReadyStep = DeviceNetwork::ReadyStep;

constexpr std::size_t steps_at_a_time = 32;
constexpr std::size_t max_recorded = 1U << 17; ///< with more samples, Kokkos's scan lists live samples

/// By layer: samples of the tiles that its step writes.
std::vector<int> tile_samples(std::vector<ReadyStep> const& steps) {
  std::vector<int> samples;
  for (auto const& step : steps) {
    if (step.step.ends_layer()) samples.push_back(static_cast<int>(step.step.choice.tile_samples));
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
      auto const& [step, work, hand_over] = steps[number];
      work->forward(stream, panel, hand_over); // sparse product, bias, activation; then dead samples leave
      if (gather != nullptr && step.ends_layer())
        gather->gather(stream, panel, step.first_layer, static_cast<int>(step.next_tile_samples), step.keeps_dead);
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
/// options.repeat times, collects the results, and passes the numbers of live samples to the plan. The plan changes for
/// a new input, for samples that differ from the expected ones, and after a batch whose live samples show that another
/// plan is better.
class DeviceInference final : public Inference, public InferenceOnDevice {
public:
  DeviceInference(std::unique_ptr<KernelSet> kernels, NetworkToRun const& network, InferenceOptions const& options)
      : kernels_(std::move(kernels)),
        options_(possible(options)),
        limits_(memory_limits(options, options.backend)),
        source_(network.layers),
        ordered_(network.ordered),
        reduction_(network.reduction),
        slices_(slices_of(*source_, options)),
        network_(*kernels_, slices_ ? slices_ : source_, options_, limits_, slices_.get()),
        num_mapped_(network.output_map.size()),
        stream_(kernels_->memory().default_stream()),
        sample_memory_(upload_memory(kernels_->memory())),
        samples_(*kernels_, options.input_name),
        dense_samples_(*kernels_, options.input_name),
        loop_(kernels_->memory()),
        results_(*kernels_) {
    if (slices_) gather_.emplace(*kernels_, *slices_, *options.exchange);
    if (num_mapped_ > 0) output_map_ = new_copy(kernels_->memory(), "varve::output_map", network.output_map);
  }

  std::size_t num_inputs() const override { return network_.num_inputs(); }
  std::size_t num_outputs() const override { return num_mapped_ > 0 ? num_mapped_ : network_.num_outputs(); }
  std::size_t num_layers() const override { return network_.num_layers(); }
  EdgeOffset num_edges() const override {
    if (reduction_) return reduction_->edges_before;
    return slices_ ? slices_->num_edges() : network_.num_edges();
  }

  Plan const& plan(InputShape const& input) override {
    auto const density = density_of(input.num_samples, input.num_entries);
    network_.plan_for(network_.way_for(input.has_one_value, density, num_of_few_entries_ + input.num_samples));
    std::size_t const entries_per_sample =
        input.num_samples == 0 ? 0 : (input.num_entries + input.num_samples - 1) / input.num_samples;
    std::size_t const sample_bytes = SampleUpload::bytes_per_sample(*kernels_, entries_per_sample, input.has_one_value);
    auto const bytes_of = [&](std::size_t samples) { return panel_bytes(samples) + samples * sample_bytes; };
    BatchRequest const request{input.num_samples, options_.batch,          enough_to_exchange(),
                               network_.bytes(),  Panel::slot_granularity, max_slots};
    plan_.batch = choose_batch(request, limits_.device, bytes_of);
    allocate_panel();
    plan_.sample_bytes = plan_.batch * sample_bytes;
    state_plan();
    return plan_;
  }
  Plan const& plan() const override { return plan_; }
  std::vector<std::size_t> step_samples() const override { return step_samples_; }

  void upload_ahead(SampleBatch const& samples) override {
    if (samples.num_samples() <= plan_.batch && samples.num_neurons() == num_inputs()) samples_.upload(samples);
  }

  std::shared_ptr<SampleMemory> sample_memory() override { return sample_memory_; }

  BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) override {
    require_fit(samples.num_samples(), samples.num_neurons());
    BatchResult result;
    run_repeatedly(samples, result);
    ProfilingRegion const region("varve::collect");
    Stopwatch const collect_time;
    auto const counts = count_live(*stream_, result);
    results_.collect(end_of_run(*stream_, samples.num_samples(), samples.first_sample()), counts, wanted, result);
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
    fit_to(input);
    result.upload_seconds = upload_time.seconds();
    run_loop(*stream, input, result);
    ProfilingRegion const region("varve::collect");
    Stopwatch const collect_time;
    auto const counts = count_live(*stream, result);
    results_.write(end_of_run(*stream, samples.num_rows, first_sample), counts, activations, result);
    stream->fence("varve: activations are written");
    finish(counts, samples.num_rows, collect_time, result);
    return result;
  }

private:
  /// Edges of a step, on all ranks together; the edges of a layer are counted with its last strip. Equals the edges
  /// after reductions.
  EdgeOffset edges_of(std::size_t number) const {
    Step const& step = network_.steps()[number].step;
    if (!slices_) return step.choice.num_edges;
    return step.ends_layer() ? slices_->whole(step.first_layer).num_edges : 0;
  }

  /// Makes a new plan if these samples do not suit the way in which the present one reads samples (several values, or
  /// too many entries), or if they have so few entries that no tiles are needed. Throws ResourceError if the panel of
  /// the new plan does not fit the memory.
  void fit_to(SamplesOnDevice const& samples) {
    auto const num_samples = static_cast<std::size_t>(samples.num_samples);
    auto const density = density_of(num_samples, samples.num_entries);
    if (density <= kFewEntries) num_of_few_entries_ += num_samples;
    auto const way = network_.way_for(samples.value_stride == 0, density, num_of_few_entries_);
    auto const before = network_.first_way();
    if (way == before || (before == FirstLayerInput::tiles && way != FirstLayerInput::entries)) return;
    auto const exceeds_memory = [&] { return network_.bytes() + panel_bytes(plan_.batch) > limits_.device; };
    network_.plan_for(way);
    if (way == FirstLayerInput::entries && exceeds_memory()) { // by its copy of the layer, which is not needed
      bool const suits_before = before == FirstLayerInput::tiles || samples.value_stride == 0;
      network_.plan_for(suits_before ? before : FirstLayerInput::tiles);
      if (suits_before) return;
    }
    if (exceeds_memory())
      batch_exceeds_memory(plan_.batch, panel_bytes(plan_.batch), network_.bytes(), limits_.device, 0);
    allocate_panel();
    state_plan();
  }

  /// Makes a new plan if the live samples of a batch show that other launches are faster. `counts`: live samples after
  /// each list of the panel.
  void learn(std::vector<int> const& counts, std::size_t num_samples) {
    constexpr std::size_t too_few = 1024; // smaller batches predict little about other batches
    if (gather_ || num_samples < too_few) return;
    auto const share_of = [&](int list) {
      return static_cast<double>(counts[static_cast<std::size_t>(list)]) / static_cast<double>(num_samples);
    };
    auto const& lists_before = loop_.lists_before();
    std::vector<LiveShare> known{{0, 1.0}};
    for (std::size_t i = 1; i < lists_before.size(); ++i) {
      if (lists_before[i] == lists_before[i - 1]) continue; // no list since the step before, so no new count
      known.push_back({network_.steps()[i].step.first_layer, share_of(lists_before[i])});
    }
    known.push_back({network_.num_layers(), share_of(panel_->num_lists())});
    if (network_.learn(known, num_samples)) state_plan();
  }

  /// Entries per sample and input.
  double density_of(std::size_t num_samples, std::size_t num_entries) const {
    return static_cast<double>(num_entries) /
           std::max(1.0, static_cast<double>(num_samples) * static_cast<double>(network_.num_inputs()));
  }

  /// Sets plan_ from the network's present steps.
  void state_plan() {
    ++num_changes_;
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

  Panel::Size panel_size(std::size_t samples) const {
    auto const way = network_.first_way();
    bool const reads_bits = way == FirstLayerInput::own_bits || way == FirstLayerInput::bits;
    return {samples, max_neurons(), 2 * network_.num_layers() + 1, reads_bits ? network_.num_inputs() : 0,
            options_.reductions.equal_samples};
  }
  std::size_t panel_bytes(std::size_t samples) const {
    std::size_t const part_bytes = gather_ ? gather_->bytes(samples, max_neurons()) : 0;
    return Panel::bytes(panel_size(samples), kernels_->scalar_bytes()) + part_bytes;
  }
  /// Neurons of the widest layer that the panel must hold: the inputs need no room if the first layer reads no tiles.
  std::size_t max_neurons() const { return network_.max_neurons(network_.first_way() != FirstLayerInput::tiles); }

  /// Samples at a time beyond which exchanges get no faster per sample: their parts have 1 GiB.
  std::optional<std::size_t> enough_to_exchange() const {
    if (!gather_) return std::nullopt;
    constexpr std::size_t bytes = std::size_t(1) << 30U;
    std::size_t const step = Panel::slot_granularity;
    return std::max<std::size_t>(1, bytes / gather_->bytes(step, network_.max_neurons(false))) * step;
  }

  void allocate_panel() {
    panel_.reset(); // frees the old panel before the new one is allocated
    panel_ = kernels_->new_panel(panel_size(plan_.batch));
    if (gather_) gather_->allocate(plan_.batch, max_neurons());
  }

  /// Uploads the samples, runs the layer loop options.repeat times, and releases the samples.
  void run_repeatedly(SampleBatch const& samples, BatchResult& result) {
    Stopwatch const upload_time;
    auto const input = take_samples(samples);
    struct Release {
      SampleUpload& samples;
      ~Release() { samples.release(); }
    } const release{samples_};
    fit_to(input);
    result.upload_seconds = upload_time.seconds();
    run_loop(*stream_, input, result);
  }

  /// Runs the layer loop options.repeat times.
  void run_loop(Stream const& stream, SamplesOnDevice const& input, BatchResult& result) {
    bool const is_own_stream = &stream == stream_.get(); // a caller's stream may be a new one each time
    bool const again = is_own_stream && loop_.can_run_again(network_, plan_.batch);
    for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
      stream.fence("varve: before the layer loop");
      Stopwatch const loop_time;
      if (again) loop_.run_again(stream, input, network_, *panel_, num_changes_);
      if (!again) loop_.run(stream, input, network_, *panel_, gather_ ? &*gather_ : nullptr);
      stream.fence("varve: after the layer loop");
      result.loop_seconds.push_back(loop_time.seconds());
    }
    if (!gather_) return;
    result.exchange_seconds = gather_->seconds();
    result.exchange_bytes = gather_->bytes_received();
  }

  SamplesOnDevice take_samples(SampleBatch const& samples) {
    ProfilingRegion const region("varve::upload"); // not in upload_ahead(): tools have one stack of regions per process
    return samples_.take(samples);
  }

  void require_fit(std::size_t num_samples, std::size_t num_neurons) const {
    VARVE_REQUIRE(num_samples <= plan_.batch, "a batch larger than planned");
    VARVE_REQUIRE(num_neurons == num_inputs(), "samples of another width than the network's input");
  }

  EndOfRun end_of_run(Stream const& stream, std::size_t num_samples, SampleIndex first_sample) {
    PanelOutputs const outputs{num_mapped_ > 0 ? output_map_.data() : nullptr, num_outputs(),
                               network_.saturated_value()};
    return {stream, *panel_, outputs, num_samples, first_sample};
  }

  /// The number of live samples after each list of the last run. Adds the edges computed for them to `result`.
  std::vector<int> count_live(Stream const& stream, BatchResult& result) {
    auto counts = results_.fetch_counts(stream, *panel_);
    auto const& lists_before = loop_.lists_before();
    step_samples_.clear();
    for (std::size_t i = 0; i < lists_before.size(); ++i) {
      int const count = counts[static_cast<std::size_t>(lists_before[i])];
      step_samples_.push_back(static_cast<std::size_t>(count));
      result.live_edges += static_cast<double>(edges_of(i)) * count;
    }
    return counts;
  }

  /// Gives the plan the numbers of live samples and ends a batch.
  void finish(std::vector<int> const& counts, std::size_t num_samples, Stopwatch const& collect_time,
              BatchResult& result) {
    learn(counts, num_samples);
    result.collect_seconds = collect_time.seconds();
    result.samples = samples_.take_traffic();
    result.weights = network_.take_traffic();
  }

  std::unique_ptr<KernelSet> kernels_;
  InferenceOptions options_;
  MemoryLimits limits_;
  std::shared_ptr<NetworkSource const> source_;   ///< the whole network, which slices_ reads
  std::shared_ptr<OrderedNetwork const> ordered_; ///< the same network if edges were reordered, else null
  std::optional<ReductionReport> reduction_;
  std::shared_ptr<LayerSlices const> slices_; ///< this rank's part if neurons are split across ranks, else null
  DeviceNetwork network_;
  std::optional<ActivationGather> gather_;
  std::unique_ptr<Panel> panel_;
  Plan plan_;
  std::size_t num_changes_ = 0;
  std::size_t num_of_few_entries_ = 0;    ///< samples with few entries so far
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
    auto const& memory = device_memory(options.backend);
    return in_double ? kernel_set_of<backend, double>(memory) : kernel_set_of<backend, float>(memory);
  });
  return std::make_unique<DeviceInference>(std::move(kernels), network, options);
}

} // namespace varve
