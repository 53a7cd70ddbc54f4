#pragma once

#include "core/execution.hpp"
#include "core/host_threads.hpp"
#include "engine/device_views.hpp"
#include "engine/inference.hpp"
#include "engine/panel.hpp"
#include "engine/sample_copy.hpp"
#include "kernels/dense_rows.hpp"
#include "kernels/samples.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// The live and saturated samples of a batch at the end of a run, including samples that others represent.
struct SampleEnds {
  std::vector<int> live;        ///< samples whose activations are in the panel
  std::vector<int> positions;   ///< position of live[i] in the panel; empty unless has_represented
  std::vector<int> saturated;   ///< samples that left because they were saturated for ever
  bool has_represented = false; ///< false: the lists are those of the panel, and live[i] is at position i

  /// The position of live[i] in the panel.
  int position(std::size_t i) const { return has_represented ? positions[i] : static_cast<int>(i); }
};

/// The samples of a batch, by their numbers.
struct SampleNumbers {
  std::size_t num_samples = 0;
  SampleIndex first_sample = 0;
};

/// Copies the wanted results of a run from the panel to the host. It copies nothing else, because a run may have many
/// batches of less than a millisecond each.
template <class ExecutionSpace, class Scalar>
class Results {
public:
  /// The meaning of a panel's last activations.
  struct Outputs {
    ArrayView<NeuronIndex const> neurons = {}; ///< output -> neuron of the panel; empty: output j is neuron j
    std::size_t num_outputs = 0;
    Scalar saturated_value = 0; ///< the activation of every output of samples that are saturated for ever
  };
  using PanelType = Panel<ExecutionSpace, Scalar>;

  explicit Results(ExecutionSpace const& space) : space_(space) {}

  /// From now on works in this instance of the execution space.
  void run_in(ExecutionSpace const& space) { space_ = space; }

  /// The number of live samples after each list of the last run; last element: samples that left saturated.
  std::vector<int> fetch_counts(PanelType const& panel) { return fetch(panel.counts(), panel.counts().size()); }

  /// Fills everything of `result` that depends on last activations.
  void collect(PanelType const& panel, std::vector<int> const& counts, SampleNumbers const& samples, Outputs outputs,
               WantedOutputs wanted, BatchResult& result) {
    SampleEnds const ends = summarize(panel, counts, samples, outputs, result);
    if (wanted.activations || wanted.predictions)
      collect_rows(panel, samples, ends, num_live(panel, counts), outputs, wanted, result);
  }

  /// Fills `result` as collect() does and writes the last activations, zeros too, to a matrix [samples, outputs] in the
  /// memory of the device. Does not fence afterwards.
  void write(PanelType const& panel, std::vector<int> const& counts, SampleNumbers const& samples, Outputs outputs,
             DenseRows<Scalar> const& target, BatchResult& result) {
    SampleEnds const ends = summarize(panel, counts, samples, outputs, result);
    write_rows(space_, WriteRows<Scalar>{panel.source(), panel.tile_samples(), panel.from_slot(), outputs.neurons,
                                         send(end_of_samples(samples, ends), ends_), panel.num_neurons(),
                                         outputs.saturated_value, target});
  }

private:
  /// Activations that one thread of a host reads before others would have begun to.
  static constexpr std::size_t few_activations = 4096;

  /// Calls launch(space) with the space to read so many activations in: on a host one thread, if they are few.
  template <class Launch>
  void in_space_for(std::size_t num_activations, Launch const& launch) const {
    if constexpr (kOnHost<ExecutionSpace>) {
      if (num_activations <= few_activations) {
        space_.fence("varve: before a launch in one thread");
        return launch(ShortSpace<ExecutionSpace>());
      }
    }
    launch(space_);
  }

  static constexpr int is_dead = WriteRows<Scalar>::is_dead;
  static constexpr int is_saturated = WriteRows<Scalar>::is_saturated;

  static std::size_t num_live(PanelType const& panel, std::vector<int> const& counts) {
    return static_cast<std::size_t>(counts[static_cast<std::size_t>(panel.num_lists())]);
  }

  /// Fills hash, live samples and their counts.
  SampleEnds summarize(PanelType const& panel, std::vector<int> const& counts, SampleNumbers const& samples,
                       Outputs outputs, BatchResult& result) {
    auto const num_saturated = static_cast<std::size_t>(counts.back());
    SampleEnds ends = find_ends(panel, samples.num_samples, num_live(panel, counts), num_saturated);
    result.activation_hash = hash_live(panel, ends, outputs, samples.first_sample) +
                             hash_saturated(panel, ends, outputs, samples.first_sample);
    result.num_saturated = ends.saturated.size();
    result.num_represented = ends.live.size() + ends.saturated.size() - num_live(panel, counts) - num_saturated;
    list_live_samples(samples, ends, result.live_samples);
    return ends;
  }

  /// For each sample its position in the panel, is_dead or is_saturated.
  static std::vector<int> end_of_samples(SampleNumbers const& samples, SampleEnds const& ends) {
    std::vector<int> end_of(samples.num_samples, is_dead);
    for (std::size_t i = 0; i < ends.live.size(); ++i)
      end_of[static_cast<std::size_t>(ends.live[i])] = ends.position(i);
    for (int const id : ends.saturated) end_of[static_cast<std::size_t>(id)] = is_saturated;
    return end_of;
  }

  static void list_live_samples(SampleNumbers const& samples, SampleEnds const& ends,
                                std::vector<SampleIndex>& live_samples) {
    std::vector<char> is_live(samples.num_samples, 0); // faster than sorting the lists
    for (auto const* const ids : {&ends.live, &ends.saturated}) {
      for (int const id : *ids) is_live[static_cast<std::size_t>(id)] = 1;
    }
    live_samples.reserve(ends.live.size() + ends.saturated.size());
    for (std::size_t sample = 0; sample < is_live.size(); ++sample) {
      if (is_live[sample] != 0) live_samples.push_back(samples.first_sample + sample);
    }
  }

  SampleEnds find_ends(PanelType const& panel, std::size_t num_samples, std::size_t num_live,
                       std::size_t num_saturated) {
    SampleEnds ends;
    auto live = fetch(panel.ids(), num_live);
    auto saturated = fetch(panel.saturated().ids, num_saturated);
    if (panel.represented_by().size() == 0) {
      ends.live = std::move(live);
      ends.saturated = std::move(saturated);
      return ends;
    }
    ends.has_represented = true;
    auto const represented_by = fetch(panel.represented_by(), num_samples);
    std::vector<int> end_of(num_samples, is_dead);
    for (std::size_t position = 0; position < num_live; ++position)
      end_of[static_cast<std::size_t>(live[position])] = static_cast<int>(position);
    for (int const id : saturated) end_of[static_cast<std::size_t>(id)] = is_saturated;
    for (std::size_t sample = 0; sample < num_samples; ++sample) {
      auto root = sample;
      while (static_cast<std::size_t>(represented_by[root]) != root)
        root = static_cast<std::size_t>(represented_by[root]);
      if (end_of[root] == is_saturated) {
        ends.saturated.push_back(static_cast<int>(sample));
      } else if (end_of[root] != is_dead) {
        ends.live.push_back(static_cast<int>(sample));
        ends.positions.push_back(end_of[root]);
      }
    }
    return ends;
  }

  std::uint64_t hash_live(PanelType const& panel, SampleEnds const& ends, Outputs outputs, SampleIndex first_sample) {
    std::uint64_t hash = 0;
    if (ends.live.empty()) return hash;
    ArrayView<int const> ids = panel.ids();
    ArrayView<int const> positions;
    if (ends.has_represented) {
      ids = send(ends.live, ids_);
      positions = send(ends.positions, positions_);
    }
    HashActivations<ExecutionSpace, Scalar> const kernel{panel.source(),
                                                         panel.tile_samples(),
                                                         panel.from_slot(),
                                                         positions,
                                                         ids,
                                                         outputs.neurons,
                                                         panel.num_neurons(),
                                                         static_cast<int>(outputs.num_outputs),
                                                         first_sample};
    in_space_for(ends.live.size() * outputs.num_outputs, [&](auto const& space) {
      using Space = std::decay_t<decltype(space)>;
      Kokkos::parallel_reduce("varve::hash_activations",
                              Kokkos::RangePolicy<Space>(space, 0, static_cast<int>(ends.live.size())), kernel, hash);
    });
    return hash;
  }

  std::uint64_t hash_saturated(PanelType const& panel, SampleEnds const& ends, Outputs outputs,
                               SampleIndex first_sample) {
    std::uint64_t hash = 0;
    if (ends.saturated.empty()) return hash;
    ArrayView<int const> const ids = ends.has_represented ? send(ends.saturated, ids_) : panel.saturated().ids;
    Kokkos::parallel_reduce(
        "varve::hash_saturated",
        Kokkos::RangePolicy<ExecutionSpace>(space_, 0, static_cast<int>(ends.saturated.size())),
        HashEqualActivations<Scalar>{outputs.saturated_value, ids, static_cast<int>(outputs.num_outputs), first_sample},
        hash);
    return hash;
  }

  /// Copies the first `count` numbers of a device array to the host. Waits for this space's kernels, but not for
  /// uploads of samples.
  std::vector<int> fetch(ArrayView<int const> const& numbers, std::size_t count) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return {numbers.data(), numbers.data() + count};
    } else {
      using Source = Kokkos::View<int const*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
      using Target = Kokkos::View<int*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged>;
      make_room(space_, fetched_, count, "varve::results");
      Kokkos::deep_copy(space_, Target(fetched_.data(), count), Source(numbers.data(), count));
      space_.fence("varve: results have arrived");
      return {fetched_.data(), fetched_.data() + count};
    }
  }

  /// Copies numbers from the host to `room` on the device, which grows if it must.
  ArrayView<int> send(std::vector<int> const& numbers, DeviceArray<ExecutionSpace, int>& room) {
    make_room(space_, room, numbers.size(), "varve::results");
    using Source = Kokkos::View<int const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
    using Target = Kokkos::View<int*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
    Kokkos::deep_copy(space_, Target(room.data(), numbers.size()), Source(numbers.data(), numbers.size()));
    return room;
  }

  /// Copies the panel's last activations to the host in blocks of rows and keeps what is wanted. Saturated samples have
  /// equal activations, so their prediction is output 0.
  void collect_rows(PanelType const& panel, SampleNumbers const& samples, SampleEnds const& ends, std::size_t num_rows,
                    Outputs outputs, WantedOutputs wanted, BatchResult& result) {
    std::size_t const width = outputs.num_outputs;
    Rows rows{std::vector<std::vector<NeuronIndex>>(wanted.activations ? num_rows : 0), {}};
    rows.values.resize(rows.columns.size());
    std::vector<NeuronIndex> largest(num_rows, 0);
    constexpr std::size_t most_values = std::size_t(1) << 25U;
    std::size_t const rows_at_a_time = std::max<std::size_t>(1, most_values / std::max<std::size_t>(1, width));
    for (std::size_t first = 0; first < num_rows; first += rows_at_a_time) {
      std::size_t const count = std::min(rows_at_a_time, num_rows - first);
      auto const row_values = gather_rows(panel, outputs, first, count);
      for_each_on_host_threads(count, [&](std::size_t row) {
        Scalar const* const activations = row_values.data() + row * width;
        largest[first + row] =
            static_cast<NeuronIndex>(std::max_element(activations, activations + width) - activations);
        if (wanted.activations) rows.take(first + row, activations, width);
      });
    }
    if (wanted.predictions) {
      result.predictions.assign(samples.num_samples, 0);
      for (std::size_t i = 0; i < ends.live.size(); ++i)
        result.predictions[static_cast<std::size_t>(ends.live[i])] =
            largest[static_cast<std::size_t>(ends.position(i))];
    }
    if (wanted.activations) join_rows(samples, ends, rows, outputs, result);
  }

  /// The nonzero activations of each position of a panel.
  struct Rows {
    std::vector<std::vector<NeuronIndex>> columns;
    std::vector<std::vector<double>> values;

    void take(std::size_t row, Scalar const* activations, std::size_t width) {
      for (std::size_t neuron = 0; neuron < width; ++neuron) {
        if (activations[neuron] == Scalar(0)) continue;
        columns[row].push_back(static_cast<NeuronIndex>(neuron));
        values[row].push_back(static_cast<double>(activations[neuron]));
      }
    }
  };

  std::vector<Scalar> gather_rows(PanelType const& panel, Outputs outputs, std::size_t first, std::size_t count) const {
    std::size_t const width = outputs.num_outputs;
    DeviceArray<ExecutionSpace, Scalar> const rows(Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::rows"),
                                                   count * width);
    GatherRows<ExecutionSpace, Scalar> const kernel{
        panel.source(),          panel.tile_samples(), panel.from_slot(),       outputs.neurons,
        static_cast<int>(first), panel.num_neurons(),  static_cast<int>(width), rows};
    in_space_for(count * width, [&](auto const& space) {
      using Space = std::decay_t<decltype(space)>;
      using Range = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>>;
      Kokkos::parallel_for("varve::gather_rows", Range(space, 0, count * width), kernel);
      space.fence("varve: gather rows");
    });
    return download(rows);
  }

  /// Writes the rows of all samples of the batch to result.activations, in order.
  static void join_rows(SampleNumbers const& samples, SampleEnds const& ends, Rows const& rows, Outputs outputs,
                        BatchResult& result) {
    SparseMatrix& matrix = result.activations.matrix;
    result.activations.first_sample = samples.first_sample;
    matrix.num_rows = samples.num_samples;
    matrix.num_columns = outputs.num_outputs;
    for (int const end : end_of_samples(samples, ends)) {
      if (end == is_saturated) {
        for (std::size_t output = 0; output < matrix.num_columns; ++output)
          matrix.column_indices.push_back(static_cast<NeuronIndex>(output));
        matrix.values.insert(matrix.values.end(), matrix.num_columns, static_cast<double>(outputs.saturated_value));
      } else if (end != is_dead) {
        auto const row = static_cast<std::size_t>(end);
        matrix.column_indices.insert(matrix.column_indices.end(), rows.columns[row].begin(), rows.columns[row].end());
        matrix.values.insert(matrix.values.end(), rows.values[row].begin(), rows.values[row].end());
      }
      matrix.row_pointers.push_back(matrix.column_indices.size());
    }
  }

  ExecutionSpace space_;
  DeviceArray<ExecutionSpace, int> ids_, positions_; ///< copies of SampleEnds, if some samples are represented
  DeviceArray<ExecutionSpace, int> ends_;            ///< for write(): the end of each sample
  Kokkos::View<int*, Kokkos::SharedHostPinnedSpace> fetched_;
};

} // namespace varve
