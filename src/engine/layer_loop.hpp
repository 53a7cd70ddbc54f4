#pragma once

#include "engine/inference.hpp"
#include "engine/panel.hpp"
#include "engine/stretch.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace varve {

/// The layer loop on one execution space, with one tile shape.
template <class ExecutionSpace, class Tile>
class LayerLoop final : public Inference {
public:
  using Scalar = typename Tile::Scalar;

  LayerLoop(NetworkSource const& network, InferenceOptions const& options) : options_(options) {
    ProfilingRegion const region("varve::prepare");
    memory_limit_ = options.memory_limit.value_or(available_memory(options.backend) / 10 * 9);
    std::vector<Layer> group;
    for (std::size_t first = 0; first < network.num_layers(); first += group.size()) {
      group.assign(std::min(layers_at_a_time, network.num_layers() - first), Layer{});
      for_each_on_host_threads(group.size(), [&](std::size_t i) { group[i] = network.layer(first + i); });
      for (std::size_t i = 0; i < group.size(); ++i) add_layer(group[i], first + i);
    }
  }

  std::size_t num_inputs() const override { return num_inputs_; }
  std::size_t num_outputs() const override { return num_outputs_; }
  std::size_t num_layers() const override { return stretches_.size(); }
  EdgeOffset num_edges() const override { return std::accumulate(edges_.begin(), edges_.end(), EdgeOffset(0)); }

  PlanSummary plan(std::size_t num_samples, EdgeOffset num_entries) override {
    PlanSummary summary;
    std::size_t const entries_per_sample = num_samples == 0 ? 0 : (num_entries + num_samples - 1) / num_samples;
    std::size_t const sample_bytes = entries_per_sample * (sizeof(NeuronIndex) + sizeof(Scalar)) + sizeof(EdgeOffset);
    std::size_t const tile_bytes = PanelType::bytes(Tile::num_samples, max_neurons_) + Tile::num_samples * sample_bytes;
    if (weight_bytes_ + tile_bytes > memory_limit_) {
      throw ResourceError(fmt::format("one tile of {} samples needs {:.3f} GiB beside {:.3f} GiB of weights, but only "
                                      "{:.3f} GiB may be used; raise --memory-limit or take another backend",
                                      Tile::num_samples, gibibytes(tile_bytes), gibibytes(weight_bytes_),
                                      gibibytes(memory_limit_)));
    }
    std::size_t const fitting_tiles = (memory_limit_ - weight_bytes_) / tile_bytes;
    std::size_t const most = std::min<std::size_t>(fitting_tiles, max_slots / Tile::num_samples) * Tile::num_samples;
    if (options_.batch && *options_.batch > most) {
      throw ResourceError(
          fmt::format("a batch of {} samples needs {:.3f} GiB beside {:.3f} GiB of weights, but only {:.3f} GiB "
                      "may be used: that is enough for {} samples; lower --batch or raise --memory-limit",
                      *options_.batch, gibibytes(*options_.batch / Tile::num_samples * tile_bytes),
                      gibibytes(weight_bytes_), gibibytes(memory_limit_), most));
    }
    batch_ = std::max<std::size_t>(1, std::min(num_samples, options_.batch.value_or(most)));
    panel_ = PanelType(); // the old one goes before the new one comes
    panel_ = PanelType(batch_, max_neurons_, stretches_.size() + 1);
    summary.engine = "varve";
    summary.device = device_name(options_.backend);
    summary.choices = choices();
    summary.batch = batch_;
    summary.tile_samples = Tile::num_samples;
    summary.weight_bytes = weight_bytes_;
    summary.panel_bytes = PanelType::bytes(batch_, max_neurons_);
    summary.sample_bytes = batch_ * sample_bytes;
    return summary;
  }

  BatchResult infer(SampleSet const& samples, WantedOutputs wanted) override {
    VARVE_REQUIRE(samples.num_samples() <= batch_, "a batch larger than planned");
    VARVE_REQUIRE(samples.num_neurons() == num_inputs_, "samples of another width than the network's input");
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
  using PanelType = Panel<ExecutionSpace, Tile>;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  static constexpr std::size_t layers_at_a_time = 16;
  static constexpr std::size_t max_slots = 1U << 30;

  /// The layer loop: everything between the two fences that are timed.
  void run(DeviceSamples<ExecutionSpace, Scalar> const& input) {
    ProfilingRegion const region("varve::layer_loop");
    panel_.load(space_, input);
    held_.assign(stretches_.size(), 0);
    for (std::size_t layer = 0; layer < stretches_.size(); ++layer) {
      held_[layer] = panel_.num_compactions();
      stretches_[layer]->forward(space_, panel_);
      if (compacts_after(layer)) panel_.compact(space_, true);
    }
    panel_.compact(space_, false);
  }

  /// Dead samples leave once nothing can revive them: after every layer while they still die fast, then now and then.
  bool compacts_after(std::size_t layer) const {
    bool const is_due = layer < 16 || layer % 8 == 7;
    return layer + 1 < stretches_.size() && layer + 1 >= first_dead_for_ever_ && is_due;
  }

  void add_layer(Layer const& layer, std::size_t number) {
    if (number == 0) num_inputs_ = layer.num_inputs();
    if (number > 0) require_fit(num_outputs_, layer, number);
    if (std::max(layer.num_inputs(), layer.num_outputs()) > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw InputError(fmt::format("layer {} has {} inputs and {} outputs; this build takes at most 2^31 - 1", number,
                                   layer.num_inputs(), layer.num_outputs()));
    }
    num_outputs_ = layer.num_outputs();
    max_neurons_ = std::max({max_neurons_, layer.num_inputs(), layer.num_outputs()});
    if (!keeps_zero(layer)) first_dead_for_ever_ = number + 1;
    edges_.push_back(layer.num_edges());
    bool const is_compact = layer.num_inputs() <= std::size_t(std::numeric_limits<std::uint16_t>::max()) + 1;
    if (is_compact) {
      add_stretch<std::uint16_t>(layer);
    } else {
      add_stretch<std::uint32_t>(layer);
    }
  }

  /// Chooses the format of a layer: sliced ELL unless its padding costs more than a quarter of its edges.
  template <class Index>
  void add_stretch(Layer const& layer) {
    using Ell = SlicedEll<ExecutionSpace, Scalar, Index, Tune::slice_width, Tune::chunk_size>;
    using Rows = Csr<ExecutionSpace, Scalar, Index>;
    EdgeOffset const stored = SlicedEllBuilder<Ell>::num_stored(layer.weights);
    bool const is_padded = stored > layer.num_edges() + layer.num_edges() / 4 + 1024;
    bool const is_ell = options_.format ? *options_.format == "sliced_ell" : !is_padded;
    std::size_t const bytes = (is_ell ? stored : layer.num_edges()) * (sizeof(Index) + sizeof(Scalar));
    if (weight_bytes_ + bytes > memory_limit_) {
      throw ResourceError(
          fmt::format("the weights of the first {} layers need {:.3f} GiB, but only {:.3f} GiB may be used; "
                      "raise --memory-limit or take a device with more memory",
                      stretches_.size() + 1, gibibytes(weight_bytes_ + bytes), gibibytes(memory_limit_)));
    }
    if (is_ell) {
      stretches_.push_back(
          std::make_unique<DirectStretch<ExecutionSpace, Tile, Ell>>(SlicedEllBuilder<Ell>::build(layer)));
    } else {
      stretches_.push_back(std::make_unique<DirectStretch<ExecutionSpace, Tile, Rows>>(CsrBuilder<Rows>::build(layer)));
    }
    weight_bytes_ += stretches_.back()->bytes();
    formats_.push_back(
        fmt::format("direct kernel, {}, {}-bit indices", is_ell ? "sliced ELL" : "CSR", 8 * sizeof(Index)));
  }

  std::vector<std::string> choices() const {
    std::vector<std::string> lines;
    for (std::size_t first = 0; first < formats_.size();) {
      std::size_t last = first;
      while (last + 1 < formats_.size() && formats_[last + 1] == formats_[first]) ++last;
      lines.push_back(fmt::format("layers {}-{}: {}", first, last, formats_[first]));
      first = last + 1;
    }
    return lines;
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
    std::size_t const num_live =
        samples.num_samples() == 0
            ? 0
            : static_cast<std::size_t>(counts[static_cast<std::size_t>(panel_.num_compactions())]);
    for (std::size_t layer = 0; layer < stretches_.size() && samples.num_samples() > 0; ++layer) {
      result.live_edges += static_cast<double>(edges_[layer]) * counts[static_cast<std::size_t>(held_[layer])];
    }
    std::vector<int> const live = live_ids(num_live);
    if (num_live > 0) {
      Kokkos::parallel_reduce("varve::hash_activations",
                              Kokkos::RangePolicy<ExecutionSpace>(space_, 0, static_cast<int>(num_live)),
                              HashActivations<ExecutionSpace, Tile>{panel_.source(), panel_.from_slot(), panel_.ids(),
                                                                    panel_.num_neurons(), samples.first_sample},
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
    std::size_t const width = num_outputs_;
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
          GatherRows<ExecutionSpace, Tile>{panel_.source(), panel_.from_slot(), static_cast<int>(first),
                                           static_cast<int>(width), rows.data()});
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

  static double gibibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

  InferenceOptions options_;
  ExecutionSpace space_;
  std::vector<std::unique_ptr<Stretch<ExecutionSpace, Tile>>> stretches_;
  std::vector<std::string> formats_;
  std::vector<EdgeOffset> edges_;
  std::vector<int> held_; ///< for each layer, after how many compactions it ran
  PanelType panel_;
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t max_neurons_ = 0;
  std::size_t first_dead_for_ever_ = 0; ///< a sample that is dead after this many layers or more stays dead
  std::size_t memory_limit_ = 0;
  std::size_t weight_bytes_ = 0;
  std::size_t batch_ = 0;
};

} // namespace varve
