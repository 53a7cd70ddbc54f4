#pragma once

#include "core/host_threads.hpp"
#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace varve {

/// Copies the wanted results of a run from the panel to the host, and nothing else, because a run may have many batches
/// of less than a millisecond each.
class Results {
public:
  /// The kernels must outlive this object.
  explicit Results(KernelSet const& kernels) : kernels_(kernels) {}

  /// The number of live samples after each list of the last run; last element: samples that left saturated.
  std::vector<int> fetch_counts(Stream const& stream, Panel const& panel) {
    return fetch(stream, panel.arrays().counts, panel.arrays().num_counts);
  }

  /// Sets the members of `result` that depend on the last activations. counts: result of fetch_counts().
  void collect(EndOfRun const& run, std::vector<int> const& counts, WantedOutputs wanted, BatchResult& result) {
    auto const ends = summarize(run, counts, result);
    auto rows = wanted;
    if (wanted.digests && kernels_.memory().is_host()) {
      rows.activations = true;
    } else if (wanted.digests) {
      result.digests.resize(run.num_samples);
      kernels_.digest_outputs(run, send(run.stream, ends, ends_), result.digests);
    }
    if (!rows.activations && !rows.predictions) return;
    std::size_t const num_rows = num_live(run.panel, counts);
    if (kernels_.scalar_bytes() == sizeof(float)) {
      collect_rows<float>(run, num_rows, ends, rows, result);
    } else {
      collect_rows<double>(run, num_rows, ends, rows, result);
    }
    if (wanted.digests && result.digests.empty()) result.digests = output_digests(result.activations);
    if (!wanted.activations) result.activations = {};
  }

  /// collect(), and also writes the last activations, including zeros, to a matrix [samples, outputs] in device memory.
  /// Does not fence afterwards.
  void write(EndOfRun const& run, std::vector<int> const& counts, DeviceOutput const& target, BatchResult& result) {
    auto const ends = summarize(run, counts, result);
    kernels_.write_rows(run, send(run.stream, ends, ends_), target);
  }

private:
  /// The nonzero activations of the positions of a panel, one after the other.
  struct Rows {
    std::vector<EdgeOffset> row_pointers = {0};
    std::vector<NeuronIndex> columns;
    std::vector<double> values;

    /// Adds the nonzero numbers of `count` rows of a dense matrix [count, width].
    template <class Scalar>
    void add(Scalar const* dense, std::size_t count, std::size_t width) {
      std::size_t const first = row_pointers.size();
      row_pointers.resize(first + count);
      for_each_on_host_threads(count, [&](std::size_t row) {
        auto const* const numbers = dense + row * width;
        row_pointers[first + row] = width - static_cast<std::size_t>(std::count(numbers, numbers + width, Scalar(0)));
      });
      for (std::size_t row = first; row < row_pointers.size(); ++row) row_pointers[row] += row_pointers[row - 1];
      columns.resize(row_pointers.back());
      values.resize(row_pointers.back());
      for_each_on_host_threads(count, [&](std::size_t row) {
        auto entry = row_pointers[first + row - 1];
        for (std::size_t neuron = 0; neuron < width; ++neuron) {
          auto const number = dense[row * width + neuron];
          if (number == Scalar(0)) continue;
          columns[entry] = static_cast<NeuronIndex>(neuron);
          values[entry++] = static_cast<double>(number);
        }
      });
    }
  };

  static std::size_t num_live(Panel const& panel, std::vector<int> const& counts) {
    return static_cast<std::size_t>(counts[static_cast<std::size_t>(panel.num_lists())]);
  }

  /// Moves the rows of all samples of the batch to result.activations, in order. ends: see KernelSet::write_rows().
  static void join_rows(EndOfRun const& run, std::vector<int> const& ends, Rows rows, BatchResult& result) {
    SparseMatrix& matrix = result.activations.matrix;
    result.activations.first_sample = run.first_sample;
    matrix.num_rows = run.num_samples;
    matrix.num_columns = run.outputs.num_outputs;
    bool is_in_order = rows.row_pointers.size() == ends.size() + 1; // each position is the sample of its number
    for (std::size_t sample = 0; is_in_order && sample < ends.size(); ++sample)
      is_in_order = ends[sample] == static_cast<int>(sample);
    if (is_in_order) {
      matrix.row_pointers = std::move(rows.row_pointers);
      matrix.column_indices = std::move(rows.columns);
      matrix.values = std::move(rows.values);
      return;
    }
    auto const first_of = [&](std::size_t position) {
      return static_cast<std::ptrdiff_t>(rows.row_pointers[position]);
    };
    matrix.row_pointers.reserve(ends.size() + 1);
    for (int const end : ends) {
      auto const position = static_cast<std::size_t>(std::max(end, 0));
      auto const num_entries = end == kSaturatedSample ? matrix.num_columns
                               : end == kDeadSample    ? 0
                                                       : rows.row_pointers[position + 1] - rows.row_pointers[position];
      matrix.row_pointers.push_back(matrix.row_pointers.back() + num_entries);
    }
    matrix.column_indices.resize(matrix.row_pointers.back());
    matrix.values.resize(matrix.row_pointers.back());
    for_each_on_host_threads(ends.size(), [&](std::size_t sample) {
      auto const first = static_cast<std::ptrdiff_t>(matrix.row_pointers[sample]);
      auto const columns = matrix.column_indices.begin() + first;
      auto const values = matrix.values.begin() + first;
      if (ends[sample] == kSaturatedSample) {
        std::iota(columns, columns + static_cast<std::ptrdiff_t>(matrix.num_columns), NeuronIndex{0});
        std::fill_n(values, matrix.num_columns, run.outputs.saturated_value);
      } else if (ends[sample] != kDeadSample) {
        auto const position = static_cast<std::size_t>(ends[sample]);
        std::copy(rows.columns.begin() + first_of(position), rows.columns.begin() + first_of(position + 1), columns);
        std::copy(rows.values.begin() + first_of(position), rows.values.begin() + first_of(position + 1), values);
      }
    });
  }

  /// Copies the panel's last activations to the host in blocks of rows and keeps the wanted results. Saturated samples
  /// have equal activations, so their prediction is output 0.
  template <class Scalar>
  void collect_rows(EndOfRun const& run, std::size_t num_rows, std::vector<int> const& ends, WantedOutputs wanted,
                    BatchResult& result) {
    std::size_t const width = run.outputs.num_outputs;
    Rows rows;
    std::vector<NeuronIndex> largest(wanted.predictions ? num_rows : 0, 0);
    constexpr std::size_t max_values = std::size_t(1) << 25U;
    std::size_t const rows_at_a_time = std::max<std::size_t>(1, max_values / std::max<std::size_t>(1, width));
    for (std::size_t first = 0; first < num_rows; first += rows_at_a_time) {
      std::size_t const count = std::min(rows_at_a_time, num_rows - first);
      std::vector<Scalar> dense(count * width);
      kernels_.gather_rows(run, first, count, dense.data());
      if (wanted.predictions) {
        for_each_on_host_threads(count, [&](std::size_t row) {
          auto const* const numbers = dense.data() + row * width;
          largest[first + row] = static_cast<NeuronIndex>(std::max_element(numbers, numbers + width) - numbers);
        });
      }
      if (wanted.activations) rows.add(dense.data(), count, width);
    }
    if (wanted.predictions) {
      for (int const end : ends) result.predictions.push_back(end < 0 ? 0 : largest[static_cast<std::size_t>(end)]);
    }
    if (wanted.activations) join_rows(run, ends, std::move(rows), result);
  }

  /// Sets hash, live samples and their counts. Returns the end of each sample (see KernelSet::write_rows());
  /// represented samples have that of the sample that represents them.
  std::vector<int> summarize(EndOfRun const& run, std::vector<int> const& counts, BatchResult& result) {
    auto const arrays = run.panel.arrays();
    std::vector<int> ends(run.num_samples, kDeadSample);
    auto live = fetch(run.stream, arrays.ids, num_live(run.panel, counts));
    auto saturated = fetch(run.stream, arrays.saturated, static_cast<std::size_t>(counts.back()));
    std::size_t const num_own = live.size() + saturated.size();
    for (std::size_t position = 0; position < live.size(); ++position)
      ends[static_cast<std::size_t>(live[position])] = static_cast<int>(position);
    for (int const id : saturated) ends[static_cast<std::size_t>(id)] = kSaturatedSample;
    bool const has_represented = arrays.represented_by != nullptr;
    std::vector<int> positions;
    if (has_represented) {
      auto const represented_by = fetch(run.stream, arrays.represented_by, run.num_samples);
      live.clear();
      saturated.clear();
      for (std::size_t sample = 0; sample < run.num_samples; ++sample) {
        auto root = sample;
        while (static_cast<std::size_t>(represented_by[root]) != root)
          root = static_cast<std::size_t>(represented_by[root]);
        ends[sample] = ends[root];
        if (ends[sample] == kSaturatedSample) saturated.push_back(static_cast<int>(sample));
        if (ends[sample] >= 0) live.push_back(static_cast<int>(sample));
        if (ends[sample] >= 0) positions.push_back(ends[sample]);
      }
    }
    if (!live.empty()) {
      SamplesInPanel samples{arrays.ids, nullptr, live.size()};
      if (has_represented) samples.ids = send(run.stream, live, ids_);
      if (has_represented) samples.positions = send(run.stream, positions, positions_);
      result.activation_hash += kernels_.hash(run, samples);
    }
    if (!saturated.empty()) {
      auto const* const ids = has_represented ? send(run.stream, saturated, ids_) : arrays.saturated;
      result.activation_hash += kernels_.hash_saturated(run, ids, saturated.size());
    }
    result.num_saturated = saturated.size();
    result.num_represented = live.size() + saturated.size() - num_own;
    result.live_samples.reserve(live.size() + saturated.size());
    for (std::size_t sample = 0; sample < ends.size(); ++sample) {
      if (ends[sample] != kDeadSample) result.live_samples.push_back(run.first_sample + sample);
    }
    return ends;
  }

  /// Copies `count` numbers from the device. Waits for the stream, but not for uploads of samples.
  std::vector<int> fetch(Stream const& stream, int const* numbers, std::size_t count) {
    if (kernels_.memory().is_host()) return {numbers, numbers + count};
    kernels_.memory().make_room_on_host(stream, fetched_, count, sizeof(int), "varve::results");
    stream.copy_to_host(fetched_.data(), numbers, count * sizeof(int));
    stream.fence("varve: results have arrived");
    return {fetched_.as<int>(), fetched_.as<int>() + count};
  }

  /// Copies numbers from the host to `room` on the device, which grows if necessary.
  int const* send(Stream const& stream, std::vector<int> const& numbers, DeviceBytes& room) {
    kernels_.memory().make_room(stream, room, numbers.size(), sizeof(int), "varve::results");
    stream.copy_to_device(room.data(), numbers.data(), numbers.size() * sizeof(int));
    return room.as<int>();
  }

  KernelSet const& kernels_;
  DeviceBytes ids_, positions_; ///< samples and their positions, if some samples are represented
  DeviceBytes ends_;            ///< the end of each sample
  DeviceBytes fetched_;         ///< copies on the host
};

} // namespace varve
