#pragma once

#include "engine/device_network.hpp"
#include "engine/inference.hpp"
#include "engine/panel.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// The layer loop on one execution space.
template <class ExecutionSpace, class Scalar, bool NarrowTiles>
class LayerLoop final : public Inference {
public:
  LayerLoop(NetworkSource const& network, InferenceOptions const& options)
      : options_(options),
        memory_limit_(options.memory_limit.value_or(available_memory(options.backend) / 10 * 9)),
        network_(network, options, memory_limit_) {}

  std::size_t num_inputs() const override { return network_.num_inputs(); }
  std::size_t num_outputs() const override { return network_.num_outputs(); }
  std::size_t num_layers() const override { return network_.num_layers(); }
  EdgeOffset num_edges() const override { return network_.num_edges(); }

  PlanSummary plan(std::size_t num_samples, EdgeOffset num_entries) override {
    std::size_t const neurons = network_.max_neurons();
    std::size_t const entries_per_sample = num_samples == 0 ? 0 : (num_entries + num_samples - 1) / num_samples;
    std::size_t const sample_bytes = entries_per_sample * (sizeof(NeuronIndex) + sizeof(Scalar)) + sizeof(EdgeOffset);
    auto const bytes_of = [&](std::size_t samples) {
      return PanelType::bytes(samples, neurons) + samples * sample_bytes;
    };
    std::size_t const step = PanelType::slot_granularity;
    std::size_t const room = memory_limit_ - std::min(memory_limit_, network_.bytes());
    std::size_t const most = std::min(room / bytes_of(step), max_slots / step) * step;
    std::size_t const wanted =
        std::min(std::max<std::size_t>(num_samples, 1), options_.batch.value_or(std::max<std::size_t>(most, 1)));
    if (most == 0 || wanted > most) {
      batch_exceeds_memory(wanted, bytes_of(wanted), network_.bytes(), memory_limit_, most);
    }
    batch_ = std::max<std::size_t>(1, std::min(num_samples, wanted));
    panel_ = PanelType(); // the old one goes before the new one comes
    panel_ = PanelType(batch_, neurons, network_.stretches().size() + 1);
    PlanSummary summary;
    summary.engine = to_string(Engine::varve);
    summary.device = device_name(options_.backend);
    summary.choices = network_.choices();
    summary.batch = batch_;
    summary.tile_samples = static_cast<std::size_t>(network_.stretches().front().work->tile_samples());
    summary.weight_bytes = network_.bytes();
    summary.panel_bytes = PanelType::bytes(batch_, neurons);
    summary.sample_bytes = batch_ * sample_bytes;
    return summary;
  }

  BatchResult infer(SampleSet const& samples, WantedOutputs wanted) override {
    VARVE_REQUIRE(samples.num_samples() <= batch_, "a batch larger than planned");
    VARVE_REQUIRE(samples.num_neurons() == num_inputs(), "samples of another width than the network's input");
    BatchResult result;
    Stopwatch const upload_time;
    auto const input = upload_samples(samples.matrix);
    result.upload_seconds = upload_time.seconds();

    for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
      space_.fence("varve: before the layer loop");
      Stopwatch const loop_time;
      run(input);
      space_.fence("varve: after the layer loop");
      result.loop_seconds.push_back(loop_time.seconds());
    }

    Stopwatch const collect_time;
    collect(samples, wanted, result);
    result.collect_seconds = collect_time.seconds();
    return result;
  }

private:
  using PanelType = Panel<ExecutionSpace, Scalar>;
  static constexpr std::size_t max_slots = 1U << 30;

  /// The layer loop: everything between the two fences that are timed.
  void run(DeviceSamples<ExecutionSpace, Scalar> const& input) {
    ProfilingRegion const region("varve::layer_loop");
    panel_.start(space_, input);
    held_.clear();
    for (auto const& stretch : network_.stretches()) {
      held_.push_back(panel_.num_lists());
      stretch.work->forward(space_, panel_, stretch.hand_over);
    }
  }

  DeviceSamples<ExecutionSpace, Scalar> upload_samples(SparseMatrix const& matrix) const {
    ProfilingRegion const region("varve::upload");
    DeviceSamples<ExecutionSpace, Scalar> samples;
    samples.num_samples = static_cast<int>(matrix.num_rows);
    samples.num_neurons = static_cast<int>(matrix.num_columns);
    samples.row_pointers = upload<ExecutionSpace>("varve::sample_pointers", matrix.row_pointers);
    samples.columns = upload<ExecutionSpace>("varve::sample_columns", matrix.column_indices);
    samples.values =
        upload<ExecutionSpace>("varve::sample_values", std::vector<Scalar>(matrix.values.begin(), matrix.values.end()));
    samples.value_stride = matrix.values.size() == 1 ? 0 : 1;
    return samples;
  }

  void collect(SampleSet const& samples, WantedOutputs wanted, BatchResult& result) {
    ProfilingRegion const region("varve::collect");
    auto const counts = download(panel_.counts());
    for (std::size_t i = 0; i < held_.size(); ++i) {
      result.live_edges +=
          static_cast<double>(network_.stretches()[i].num_edges) * counts[static_cast<std::size_t>(held_[i])];
    }
    auto const num_live = static_cast<std::size_t>(counts[static_cast<std::size_t>(panel_.num_lists())]);
    std::vector<int> const live = live_ids(num_live);
    if (num_live > 0) {
      Kokkos::parallel_reduce(
          "varve::hash_activations", Kokkos::RangePolicy<ExecutionSpace>(space_, 0, static_cast<int>(num_live)),
          HashActivations<ExecutionSpace, Scalar>{panel_.source(), panel_.tile_samples(), panel_.from_slot(),
                                                  panel_.ids(), panel_.num_neurons(), samples.first_sample},
          result.activation_hash);
    }
    if (wanted.activations || wanted.predictions) collect_rows(samples, live, wanted, result);
    result.live_samples.reserve(num_live);
    for (int const id : live) result.live_samples.push_back(samples.first_sample + static_cast<SampleIndex>(id));
    std::ranges::sort(result.live_samples);
  }

  std::vector<int> live_ids(std::size_t num_live) const {
    std::vector<int> ids(num_live);
    Kokkos::View<int const*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged> const device(panel_.ids(),
                                                                                                          num_live);
    Kokkos::deep_copy(Kokkos::View<int*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(ids.data(), num_live), device);
    return ids;
  }

  /// Brings the live samples' last activations back in blocks of rows and keeps what is wanted of them.
  void collect_rows(SampleSet const& samples, std::vector<int> const& live, WantedOutputs wanted, BatchResult& result) {
    std::size_t const width = num_outputs();
    std::vector<std::size_t> position_of(samples.num_samples(), live.size());
    for (std::size_t position = 0; position < live.size(); ++position)
      position_of[static_cast<std::size_t>(live[position])] = position;
    std::vector<std::vector<NeuronIndex>> columns(wanted.activations ? live.size() : 0);
    std::vector<std::vector<double>> values(columns.size());
    result.predictions.assign(wanted.predictions ? samples.num_samples() : 0, 0);

    std::size_t const rows_at_a_time =
        std::max<std::size_t>(1, (std::size_t(1) << 25) / std::max<std::size_t>(1, width));
    for (std::size_t first = 0; first < live.size(); first += rows_at_a_time) {
      std::size_t const count = std::min(rows_at_a_time, live.size() - first);
      DeviceArray<ExecutionSpace, Scalar> const rows(Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::rows"),
                                                     count * width);
      Kokkos::parallel_for(
          "varve::gather_rows",
          Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>(space_, 0, count * width),
          GatherRows<ExecutionSpace, Scalar>{panel_.source(), panel_.tile_samples(), panel_.from_slot(),
                                             static_cast<int>(first), static_cast<int>(width), rows.data()});
      space_.fence("varve: gather rows");
      auto const row_values = download(rows);
      for_each_on_host_threads(count, [&](std::size_t row) {
        Scalar const* const activations = row_values.data() + row * width;
        if (wanted.predictions) {
          result.predictions[static_cast<std::size_t>(live[first + row])] =
              static_cast<NeuronIndex>(std::max_element(activations, activations + width) - activations);
        }
        for (std::size_t neuron = 0; wanted.activations && neuron < width; ++neuron) {
          if (activations[neuron] == Scalar(0)) continue;
          columns[first + row].push_back(static_cast<NeuronIndex>(neuron));
          values[first + row].push_back(static_cast<double>(activations[neuron]));
        }
      });
    }
    if (!wanted.activations) return;
    SparseMatrix& matrix = result.activations.matrix;
    result.activations.first_sample = samples.first_sample;
    matrix.num_rows = samples.num_samples();
    matrix.num_columns = width;
    for (std::size_t sample = 0; sample < matrix.num_rows; ++sample) {
      std::size_t const position = position_of[sample];
      if (position < live.size()) {
        matrix.column_indices.insert(matrix.column_indices.end(), columns[position].begin(), columns[position].end());
        matrix.values.insert(matrix.values.end(), values[position].begin(), values[position].end());
      }
      matrix.row_pointers.push_back(matrix.column_indices.size());
    }
  }

  InferenceOptions options_;
  std::size_t memory_limit_;
  DeviceNetwork<ExecutionSpace, Scalar, NarrowTiles> network_;
  ExecutionSpace space_;
  PanelType panel_;
  std::vector<int> held_; ///< for each stretch, after how many lists of live samples it ran
  std::size_t batch_ = 0;
};

} // namespace varve
