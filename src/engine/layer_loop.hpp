#pragma once

#include "engine/activation_gather.hpp"
#include "engine/backends.hpp"
#include "engine/device_network.hpp"
#include "engine/inference.hpp"
#include "engine/memory_limits.hpp"
#include "engine/panel.hpp"
#include "engine/sample_stage.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The layer loop on one execution space.
template <class ExecutionSpace, class Scalar, bool NarrowTiles>
class LayerLoop final : public Inference {
public:
  LayerLoop(NetworkToRun const& network, InferenceOptions const& options)
      : options_(possible(options)),
        limits_(memory_limits(options)),
        source_(network.layers),
        ordered_(network.ordered),
        slices_(slices_of(*source_, options)),
        network_(slices_ ? slices_ : source_, options_, limits_, slices_.get()),
        reduction_(network.reduction),
        stage_(options.input_name) {
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

  PlanSummary plan(InputShape const& input) override {
    takes_one_value_ = input.has_one_value && network_.takes_one_value();
    std::size_t const entries_per_sample =
        input.num_samples == 0 ? 0 : (input.num_entries + input.num_samples - 1) / input.num_samples;
    std::size_t const sample_bytes =
        SampleStage<ExecutionSpace, Scalar>::bytes_per_sample(entries_per_sample, input.has_one_value);
    auto const bytes_of = [&](std::size_t samples) { return panel_bytes(samples) + samples * sample_bytes; };
    std::size_t const step = PanelType::slot_granularity;
    std::size_t const room = limits_.device - std::min(limits_.device, network_.bytes());
    std::size_t const most = std::min(room / bytes_of(step), max_slots / step) * step;
    std::size_t const usual = std::max<std::size_t>(1, gather_ ? std::min(most, enough_to_exchange()) : most);
    std::size_t const wanted = std::min(std::max<std::size_t>(input.num_samples, 1), options_.batch.value_or(usual));
    if (most == 0 || wanted > most) {
      batch_exceeds_memory(wanted, bytes_of(wanted), network_.bytes(), limits_.device, most);
    }
    batch_ = std::max<std::size_t>(1, std::min(input.num_samples, wanted));
    allocate_panel();
    PlanSummary summary;
    summary.engine = to_string(Engine::varve);
    summary.device = device_name(options_.backend);
    summary.choices = network_.choices();
    summary.reduction = reduction_;
    if (ordered_) summary.edge_order = ordered_->report();
    if (slices_) {
      summary.method = "neurons split over " + std::to_string(options_.exchange->num_ranks()) +
                       " ranks, who exchange the activations of each layer; saturated or equal samples are not sought";
    }
    if (network_.saturates_from() < network_.num_layers()) summary.saturates_from = network_.saturates_from();
    summary.batch = batch_;
    summary.tile_samples = static_cast<std::size_t>(network_.stretches().front().work->tile_samples());
    summary.stream = network_.stream();
    summary.weight_bytes = network_.bytes();
    summary.panel_bytes = panel_bytes(batch_);
    summary.sample_bytes = batch_ * sample_bytes;
    return summary;
  }

  void stage(SampleBatch const& samples) override {
    if (samples.num_samples() <= batch_ && samples.num_neurons() == num_inputs()) stage_.stage(samples);
  }

  BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) override {
    VARVE_REQUIRE(samples.num_samples() <= batch_, "a batch larger than planned");
    VARVE_REQUIRE(samples.num_neurons() == num_inputs(), "samples of another width than the network's input");
    BatchResult result;
    run_repeatedly(samples, result);
    if (gather_) {
      result.exchange_seconds = gather_->seconds();
      result.exchange_bytes = gather_->bytes_received();
    }

    Stopwatch const collect_time;
    collect(samples, wanted, result);
    result.collect_seconds = collect_time.seconds();
    result.samples = stage_.take_traffic();
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

  typename PanelType::Size panel_size(std::size_t samples) const {
    return {samples,
            network_.max_neurons(takes_one_value_),
            2 * network_.num_layers() + 1,
            takes_one_value_ && network_.reads_bits() ? num_inputs() : 0,
            options_.reductions.equal_samples,
            takes_one_value_};
  }
  std::size_t panel_bytes(std::size_t samples) const {
    std::size_t const part_bytes = gather_ ? gather_->bytes(samples, network_.max_neurons(takes_one_value_)) : 0;
    return PanelType::bytes(panel_size(samples)) + part_bytes;
  }

  /// Samples whose exchange takes so long that more at a time would make it no faster per sample.
  std::size_t enough_to_exchange() const {
    constexpr std::size_t bytes = std::size_t(1) << 30U;
    std::size_t const step = PanelType::slot_granularity;
    return std::max<std::size_t>(1, bytes / gather_->bytes(step, network_.max_neurons(false))) * step;
  }

  void allocate_panel() {
    panel_ = PanelType(); // the old one goes before the new one comes
    panel_ = PanelType(panel_size(batch_));
    if (gather_) gather_->allocate(batch_, network_.max_neurons(takes_one_value_));
  }

  /// For samples of several values, which the plan did not expect.
  void take_any_values() {
    takes_one_value_ = false;
    if (network_.bytes() + panel_bytes(batch_) > limits_.device)
      batch_exceeds_memory(batch_, panel_bytes(batch_), network_.bytes(), limits_.device, 0);
    allocate_panel();
  }

  /// The layer loop as often as it was asked for. Then the samples may go.
  void run_repeatedly(SampleBatch const& samples, BatchResult& result) {
    Stopwatch const upload_time;
    auto const input = take_samples(samples);
    struct Release {
      SampleStage<ExecutionSpace, Scalar>& stage;
      ~Release() { stage.release(); }
    } const release{stage_};
    if (takes_one_value_ && input.value_stride != 0) take_any_values();
    result.upload_seconds = upload_time.seconds();
    for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
      space_.fence("varve: before the layer loop");
      Stopwatch const loop_time;
      run(input);
      space_.fence("varve: after the layer loop");
      result.loop_seconds.push_back(loop_time.seconds());
    }
  }

  /// The layer loop: everything between the two fences that are timed.
  void run(DeviceSamples<ExecutionSpace, Scalar> const& input) {
    ProfilingRegion const region("varve::layer_loop");
    panel_.start(space_, input);
    held_.clear();
    auto const& stretches = network_.stretches();
    if (gather_) gather_->start(tile_samples());
    for (std::size_t number = 0; number < stretches.size() && !nobody_is_left(number); ++number) {
      held_.push_back(panel_.num_lists());
      network_.acquire(space_, stretches[number]);
      if (gather_) {
        forward_and_gather(number);
      } else {
        stretches[number].work->forward(space_, panel_, stretches[number].hand_over);
      }
    }
    network_.finish(space_);
  }

  /// One layer where neurons are split: this rank's, then all.
  void forward_and_gather(std::size_t layer) {
    auto const& stretch = network_.stretches()[layer];
    typename Stretch<ExecutionSpace, Scalar>::HandOver hand_over;
    hand_over.lists = false; // before all is known
    hand_over.tile_samples = stretch.work->tile_samples();
    stretch.work->forward(space_, panel_, hand_over);
    gather_->gather(space_, panel_, layer, stretch.hand_over.tile_samples, stretch.hand_over.keeps_dead);
  }

  std::vector<int> tile_samples() const {
    std::vector<int> samples;
    for (auto const& stretch : network_.stretches()) samples.push_back(stretch.work->tile_samples());
    return samples;
  }

  /// Looked for where samples are done before the end, once in many launches, for it takes a copy from the device.
  bool nobody_is_left(std::size_t stretch) {
    constexpr std::size_t stretches_at_a_time = 32;
    if (gather_) return panel_.max_samples() == 0; // all ranks know
    if (network_.saturates_from() == network_.num_layers()) return false;
    if (stretch == 0 || stretch % stretches_at_a_time != 0) return false;
    int count = 0;
    Kokkos::View<int const, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged> const on_device(
        panel_.num_samples());
    Kokkos::deep_copy(space_, Kokkos::View<int, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&count), on_device);
    space_.fence("varve: is anybody left");
    return count == 0;
  }

  DeviceSamples<ExecutionSpace, Scalar> take_samples(SampleBatch const& samples) {
    ProfilingRegion const region("varve::upload"); // regions are for this thread: tools keep one stack of them
    return stage_.take(samples);
  }

  /// Where the samples of a batch have ended, those that are represented by others included.
  struct Ends {
    std::vector<int> live;      ///< in the panel
    std::vector<int> positions; ///< there, if some are represented; else they are there in this order
    std::vector<int> done;
    bool has_represented = false; ///< else live and done are lists of the panel

    int position(std::size_t i) const { return has_represented ? positions[i] : static_cast<int>(i); }
  };

  /// Brings back what is asked for, and nothing else: there may be many batches of less than a millisecond each.
  void collect(SampleBatch const& samples, WantedOutputs wanted, BatchResult& result) {
    ProfilingRegion const region("varve::collect");
    auto const counts = fetch(panel_.counts().data(), panel_.counts().size());
    for (std::size_t i = 0; i < held_.size(); ++i) {
      result.live_edges += static_cast<double>(edges_of(i)) * counts[static_cast<std::size_t>(held_[i])];
    }
    auto const num_live = static_cast<std::size_t>(counts[static_cast<std::size_t>(panel_.num_lists())]);
    auto const num_done = static_cast<std::size_t>(counts.back());
    if (!gather_) learn(counts, num_live, samples.num_samples());
    Ends const ends =
        find_ends(samples.num_samples(), fetch(panel_.ids(), num_live), fetch(panel_.done().ids, num_done), num_live);
    result.activation_hash = hash_live(ends, samples.first_sample()) + hash_done(ends, samples.first_sample());
    result.num_done = ends.done.size();
    result.num_represented = ends.live.size() + ends.done.size() - num_live - num_done;
    if (wanted.activations || wanted.predictions) collect_rows(samples, ends, num_live, wanted, result);
    list_live_samples(samples, ends, result.live_samples);
  }

  static void list_live_samples(SampleBatch const& samples, Ends const& ends, std::vector<SampleIndex>& live_samples) {
    std::vector<char> is_live(samples.num_samples(), 0); // to sort them would take longer
    for (auto const* const ids : {&ends.live, &ends.done}) {
      for (int const id : *ids) is_live[static_cast<std::size_t>(id)] = 1;
    }
    live_samples.reserve(ends.live.size() + ends.done.size());
    for (std::size_t sample = 0; sample < is_live.size(); ++sample) {
      if (is_live[sample] != 0) live_samples.push_back(samples.first_sample() + sample);
    }
  }

  /// Tells the network how many samples were left after which layers.
  void learn(std::vector<int> const& counts, std::size_t num_live, std::size_t num_samples) {
    constexpr std::size_t few = 1024; // samples, which say little of others
    if (num_samples < few) return;
    auto const share_of = [&](double count) { return count / static_cast<double>(num_samples); };
    std::vector<LiveShare> known{{0, 1.0}};
    for (std::size_t i = 1; i < held_.size(); ++i) {
      if (held_[i] == held_[i - 1]) continue; // not counted
      known.push_back({network_.stretches()[i].first_layer, share_of(counts[static_cast<std::size_t>(held_[i])])});
    }
    known.push_back({num_layers(), share_of(static_cast<double>(num_live))});
    network_.learn(known, num_samples);
  }

  /// Edges of a stretch, on all ranks together.
  EdgeOffset edges_of(std::size_t stretch) const {
    return slices_ ? slices_->whole(stretch).num_edges : network_.stretches()[stretch].num_edges;
  }

  Ends find_ends(std::size_t num_samples, std::vector<int> live, std::vector<int> done, std::size_t num_live) {
    Ends ends;
    if (panel_.represented_by() == nullptr) {
      ends.live = std::move(live);
      ends.done = std::move(done);
      return ends;
    }
    ends.has_represented = true;
    auto const represented_by = fetch(panel_.represented_by(), num_samples);
    constexpr int is_dead = -1;
    constexpr int is_done = -2;
    std::vector<int> end_of(num_samples, is_dead);
    for (std::size_t position = 0; position < num_live; ++position)
      end_of[static_cast<std::size_t>(live[position])] = static_cast<int>(position);
    for (int const id : done) end_of[static_cast<std::size_t>(id)] = is_done;
    for (std::size_t sample = 0; sample < num_samples; ++sample) {
      auto root = sample;
      while (static_cast<std::size_t>(represented_by[root]) != root)
        root = static_cast<std::size_t>(represented_by[root]);
      if (end_of[root] == is_done) {
        ends.done.push_back(static_cast<int>(sample));
      } else if (end_of[root] != is_dead) {
        ends.live.push_back(static_cast<int>(sample));
        ends.positions.push_back(end_of[root]);
      }
    }
    return ends;
  }

  std::uint64_t hash_live(Ends const& ends, SampleIndex first_sample) {
    std::uint64_t hash = 0;
    if (ends.live.empty()) return hash;
    int const* const ids = ends.has_represented ? send(ends.live, ids_) : panel_.ids();
    int const* const positions = ends.has_represented ? send(ends.positions, positions_) : nullptr;
    Kokkos::parallel_reduce(
        "varve::hash_activations", Kokkos::RangePolicy<ExecutionSpace>(space_, 0, static_cast<int>(ends.live.size())),
        HashActivations<ExecutionSpace, Scalar>{panel_.source(), panel_.tile_samples(), panel_.from_slot(), positions,
                                                ids, output_neurons(), panel_.num_neurons(),
                                                static_cast<int>(num_outputs()), first_sample},
        hash);
    return hash;
  }

  std::uint64_t hash_done(Ends const& ends, SampleIndex first_sample) {
    std::uint64_t hash = 0;
    if (ends.done.empty()) return hash;
    int const* const ids = ends.has_represented ? send(ends.done, ids_) : panel_.done().ids;
    Kokkos::parallel_reduce(
        "varve::hash_done", Kokkos::RangePolicy<ExecutionSpace>(space_, 0, static_cast<int>(ends.done.size())),
        HashEqualActivations<Scalar>{done_value(), ids, static_cast<int>(num_outputs()), first_sample}, hash);
    return hash;
  }

  /// Every last activation of the samples that are done.
  Scalar done_value() const { return network_.stretches().back().hand_over.cap; }

  NeuronIndex const* output_neurons() const { return output_map_.size() > 0 ? output_map_.data() : nullptr; }

  /// Numbers on the device. Waits for what was launched on this space, not for samples that are on their way.
  std::vector<int> fetch(int const* numbers, std::size_t count) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return {numbers, numbers + count};
    } else {
      using Source = Kokkos::View<int const*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
      using Target = Kokkos::View<int*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged>;
      make_room(fetched_, count, "varve::results");
      Kokkos::deep_copy(space_, Target(fetched_.data(), count), Source(numbers, count));
      space_.fence("varve: results have arrived");
      return {fetched_.data(), fetched_.data() + count};
    }
  }

  /// Numbers of the host, on the device; the room is kept for others.
  int const* send(std::vector<int> const& numbers, DeviceArray<ExecutionSpace, int>& room) {
    make_room(room, numbers.size(), "varve::results");
    using Source = Kokkos::View<int const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
    using Target = Kokkos::View<int*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
    Kokkos::deep_copy(space_, Target(room.data(), numbers.size()), Source(numbers.data(), numbers.size()));
    return room.data();
  }

  /// Brings the panel's last activations back in blocks of rows and keeps what is wanted of them.
  /// The samples that are done have their cap at every output, the first of which is their prediction.
  void collect_rows(SampleBatch const& samples, Ends const& ends, std::size_t num_rows, WantedOutputs wanted,
                    BatchResult& result) {
    std::size_t const width = num_outputs();
    std::vector<std::vector<NeuronIndex>> columns(wanted.activations ? num_rows : 0);
    std::vector<std::vector<double>> values(columns.size());
    std::vector<NeuronIndex> largest(num_rows, 0);
    std::size_t const rows_at_a_time =
        std::max<std::size_t>(1, (std::size_t(1) << 25) / std::max<std::size_t>(1, width));
    for (std::size_t first = 0; first < num_rows; first += rows_at_a_time) {
      std::size_t const count = std::min(rows_at_a_time, num_rows - first);
      auto const row_values = gather_rows(first, count);
      for_each_on_host_threads(count, [&](std::size_t row) {
        Scalar const* const activations = row_values.data() + row * width;
        largest[first + row] =
            static_cast<NeuronIndex>(std::max_element(activations, activations + width) - activations);
        for (std::size_t neuron = 0; wanted.activations && neuron < width; ++neuron) {
          if (activations[neuron] == Scalar(0)) continue;
          columns[first + row].push_back(static_cast<NeuronIndex>(neuron));
          values[first + row].push_back(static_cast<double>(activations[neuron]));
        }
      });
    }
    if (wanted.predictions) {
      result.predictions.assign(samples.num_samples(), 0);
      for (std::size_t i = 0; i < ends.live.size(); ++i) {
        result.predictions[static_cast<std::size_t>(ends.live[i])] =
            largest[static_cast<std::size_t>(ends.position(i))];
      }
    }
    if (wanted.activations) collect_activations(samples, ends, columns, values, result);
  }

  std::vector<Scalar> gather_rows(std::size_t first, std::size_t count) const {
    std::size_t const width = num_outputs();
    DeviceArray<ExecutionSpace, Scalar> const rows(Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::rows"),
                                                   count * width);
    Kokkos::parallel_for("varve::gather_rows",
                         Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>(space_, 0, count * width),
                         GatherRows<ExecutionSpace, Scalar>{
                             panel_.source(), panel_.tile_samples(), panel_.from_slot(), output_neurons(),
                             static_cast<int>(first), panel_.num_neurons(), static_cast<int>(width), rows.data()});
    space_.fence("varve: gather rows");
    return download(rows);
  }

  /// The rows of all samples, in order; columns and values are the panel's rows.
  void collect_activations(SampleBatch const& samples, Ends const& ends,
                           std::vector<std::vector<NeuronIndex>> const& columns,
                           std::vector<std::vector<double>> const& values, BatchResult& result) const {
    constexpr int is_dead = -1;
    constexpr int is_done = -2;
    std::vector<int> end_of(samples.num_samples(), is_dead);
    for (std::size_t i = 0; i < ends.live.size(); ++i)
      end_of[static_cast<std::size_t>(ends.live[i])] = ends.position(i);
    for (int const id : ends.done) end_of[static_cast<std::size_t>(id)] = is_done;
    SparseMatrix& matrix = result.activations.matrix;
    result.activations.first_sample = samples.first_sample();
    matrix.num_rows = samples.num_samples();
    matrix.num_columns = num_outputs();
    for (int const end : end_of) {
      if (end == is_done) {
        for (std::size_t output = 0; output < matrix.num_columns; ++output)
          matrix.column_indices.push_back(static_cast<NeuronIndex>(output));
        matrix.values.insert(matrix.values.end(), matrix.num_columns, static_cast<double>(done_value()));
      } else if (end != is_dead) {
        auto const row = static_cast<std::size_t>(end);
        matrix.column_indices.insert(matrix.column_indices.end(), columns[row].begin(), columns[row].end());
        matrix.values.insert(matrix.values.end(), values[row].begin(), values[row].end());
      }
      matrix.row_pointers.push_back(matrix.column_indices.size());
    }
  }

  InferenceOptions options_;
  MemoryLimits limits_;
  std::shared_ptr<NetworkSource const> source_;   ///< of the slices
  std::shared_ptr<OrderedNetwork const> ordered_; ///< the same, if its edges need not ascend
  std::shared_ptr<LayerSlices const> slices_;     ///< where neurons are split across ranks; so the next but one
  DeviceNetwork<ExecutionSpace, Scalar, NarrowTiles> network_;
  std::optional<ActivationGather<ExecutionSpace, Scalar>> gather_;
  std::optional<ReductionReport> reduction_;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> output_map_;
  ExecutionSpace space_;
  SampleStage<ExecutionSpace, Scalar> stage_;
  PanelType panel_;
  DeviceArray<ExecutionSpace, int> ids_, positions_; ///< of samples that have ended, where some are represented
  Kokkos::View<int*, Kokkos::SharedHostPinnedSpace> fetched_;
  std::vector<int> held_; ///< for each stretch, after how many lists of live samples it ran
  std::size_t batch_ = 0;
  bool takes_one_value_ =
      false; ///< the panel has no room for the inputs, for samples whose values are all equal need none
};

} // namespace varve
