#include "engine/results.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace varve {
namespace {

/// The nonzero activations of each position of a panel.
struct Rows {
  std::vector<std::vector<NeuronIndex>> columns;
  std::vector<std::vector<double>> values;

  template <class Scalar>
  void take(std::size_t row, Scalar const* activations, std::size_t width) {
    for (std::size_t neuron = 0; neuron < width; ++neuron) {
      if (activations[neuron] == Scalar(0)) continue;
      columns[row].push_back(static_cast<NeuronIndex>(neuron));
      values[row].push_back(static_cast<double>(activations[neuron]));
    }
  }
};

std::size_t num_live(Panel const& panel, std::vector<int> const& counts) {
  return static_cast<std::size_t>(counts[static_cast<std::size_t>(panel.num_lists())]);
}

/// For each sample its position in the panel, kDeadSample or kSaturatedSample.
std::vector<int> end_of_samples(SampleNumbers const& samples, SampleEnds const& ends) {
  std::vector<int> end_of(samples.num_samples, kDeadSample);
  for (std::size_t i = 0; i < ends.live.size(); ++i) end_of[static_cast<std::size_t>(ends.live[i])] = ends.position(i);
  for (int const id : ends.saturated) end_of[static_cast<std::size_t>(id)] = kSaturatedSample;
  return end_of;
}

void list_live_samples(SampleNumbers const& samples, SampleEnds const& ends, std::vector<SampleIndex>& live_samples) {
  std::vector<char> is_live(samples.num_samples, 0); // faster than sorting the lists
  for (auto const* const ids : {&ends.live, &ends.saturated}) {
    for (int const id : *ids) is_live[static_cast<std::size_t>(id)] = 1;
  }
  live_samples.reserve(ends.live.size() + ends.saturated.size());
  for (std::size_t sample = 0; sample < is_live.size(); ++sample) {
    if (is_live[sample] != 0) live_samples.push_back(samples.first_sample + sample);
  }
}

/// Writes the rows of all samples of the batch to result.activations, in order.
void join_rows(SampleNumbers const& samples, SampleEnds const& ends, Rows const& rows, PanelOutputs const& outputs,
               BatchResult& result) {
  SparseMatrix& matrix = result.activations.matrix;
  result.activations.first_sample = samples.first_sample;
  matrix.num_rows = samples.num_samples;
  matrix.num_columns = outputs.num_outputs;
  auto const end_of = end_of_samples(samples, ends);
  matrix.row_pointers.reserve(end_of.size() + 1);
  for (int const end : end_of) {
    auto const num_entries = end == kSaturatedSample ? matrix.num_columns
                             : end == kDeadSample    ? 0
                                                     : rows.columns[static_cast<std::size_t>(end)].size();
    matrix.row_pointers.push_back(matrix.row_pointers.back() + num_entries);
  }
  matrix.column_indices.resize(matrix.row_pointers.back());
  matrix.values.resize(matrix.row_pointers.back());
  for_each_on_host_threads(end_of.size(), [&](std::size_t sample) {
    auto const first = static_cast<std::ptrdiff_t>(matrix.row_pointers[sample]);
    auto const columns = matrix.column_indices.begin() + first;
    auto const values = matrix.values.begin() + first;
    if (end_of[sample] == kSaturatedSample) {
      std::iota(columns, columns + static_cast<std::ptrdiff_t>(matrix.num_columns), NeuronIndex{0});
      std::fill_n(values, matrix.num_columns, outputs.saturated_value);
    } else if (end_of[sample] != kDeadSample) {
      auto const row = static_cast<std::size_t>(end_of[sample]);
      std::ranges::copy(rows.columns[row], columns);
      std::ranges::copy(rows.values[row], values);
    }
  });
}

} // namespace

std::vector<int> Results::fetch_counts(Lane const& lane, Panel const& panel) {
  return fetch(lane, panel.arrays().counts, panel.arrays().num_counts);
}

void Results::collect(Lane const& lane, Panel const& panel, std::vector<int> const& counts,
                      SampleNumbers const& samples, PanelOutputs const& outputs, WantedOutputs wanted,
                      BatchResult& result) {
  SampleEnds const ends = summarize(lane, panel, counts, samples, outputs, result);
  if (!wanted.activations && !wanted.predictions) return;
  std::size_t const num_rows = num_live(panel, counts);
  if (kernels_.scalar_bytes() == sizeof(float)) {
    collect_rows<float>(lane, panel, samples, ends, num_rows, outputs, wanted, result);
  } else {
    collect_rows<double>(lane, panel, samples, ends, num_rows, outputs, wanted, result);
  }
}

void Results::write(Lane const& lane, Panel const& panel, std::vector<int> const& counts, SampleNumbers const& samples,
                    PanelOutputs const& outputs, DeviceOutput const& target, BatchResult& result) {
  SampleEnds const ends = summarize(lane, panel, counts, samples, outputs, result);
  kernels_.write_rows(lane, panel, outputs, send(lane, end_of_samples(samples, ends), ends_), target);
}

/// Sets hash, live samples and their counts.
SampleEnds Results::summarize(Lane const& lane, Panel const& panel, std::vector<int> const& counts,
                              SampleNumbers const& samples, PanelOutputs const& outputs, BatchResult& result) {
  auto const num_saturated = static_cast<std::size_t>(counts.back());
  SampleEnds ends = find_ends(lane, panel, samples.num_samples, num_live(panel, counts), num_saturated);
  result.activation_hash = hash_live(lane, panel, ends, outputs, samples.first_sample) +
                           hash_saturated(lane, panel, ends, outputs, samples.first_sample);
  result.num_saturated = ends.saturated.size();
  result.num_represented = ends.live.size() + ends.saturated.size() - num_live(panel, counts) - num_saturated;
  list_live_samples(samples, ends, result.live_samples);
  return ends;
}

SampleEnds Results::find_ends(Lane const& lane, Panel const& panel, std::size_t num_samples, std::size_t num_live,
                              std::size_t num_saturated) {
  SampleEnds ends;
  auto const arrays = panel.arrays();
  auto live = fetch(lane, arrays.ids, num_live);
  auto saturated = fetch(lane, arrays.saturated, num_saturated);
  if (arrays.represented_by == nullptr) {
    ends.live = std::move(live);
    ends.saturated = std::move(saturated);
    return ends;
  }
  ends.has_represented = true;
  auto const represented_by = fetch(lane, arrays.represented_by, num_samples);
  std::vector<int> end_of(num_samples, kDeadSample);
  for (std::size_t position = 0; position < num_live; ++position)
    end_of[static_cast<std::size_t>(live[position])] = static_cast<int>(position);
  for (int const id : saturated) end_of[static_cast<std::size_t>(id)] = kSaturatedSample;
  for (std::size_t sample = 0; sample < num_samples; ++sample) {
    auto root = sample;
    while (static_cast<std::size_t>(represented_by[root]) != root)
      root = static_cast<std::size_t>(represented_by[root]);
    if (end_of[root] == kSaturatedSample) {
      ends.saturated.push_back(static_cast<int>(sample));
    } else if (end_of[root] != kDeadSample) {
      ends.live.push_back(static_cast<int>(sample));
      ends.positions.push_back(end_of[root]);
    }
  }
  return ends;
}

std::uint64_t Results::hash_live(Lane const& lane, Panel const& panel, SampleEnds const& ends,
                                 PanelOutputs const& outputs, SampleIndex first_sample) {
  if (ends.live.empty()) return 0;
  SamplesInPanel samples{panel.arrays().ids, nullptr, ends.live.size()};
  if (ends.has_represented) {
    samples.ids = send(lane, ends.live, ids_);
    samples.positions = send(lane, ends.positions, positions_);
  }
  return kernels_.hash(lane, panel, samples, outputs, first_sample);
}

std::uint64_t Results::hash_saturated(Lane const& lane, Panel const& panel, SampleEnds const& ends,
                                      PanelOutputs const& outputs, SampleIndex first_sample) {
  if (ends.saturated.empty()) return 0;
  auto const* const ids = ends.has_represented ? send(lane, ends.saturated, ids_) : panel.arrays().saturated;
  return kernels_.hash_saturated(lane, ids, ends.saturated.size(), outputs, first_sample);
}

/// Copies `count` numbers from the device. Waits for the lane, but not for uploads of samples.
std::vector<int> Results::fetch(Lane const& lane, int const* numbers, std::size_t count) {
  if (kernels_.memory().is_host()) return {numbers, numbers + count};
  kernels_.memory().make_room_on_host(lane, fetched_, count, sizeof(int), "varve::results");
  lane.copy_to_host(fetched_.data(), numbers, count * sizeof(int));
  lane.fence("varve: results have arrived");
  return {fetched_.as<int>(), fetched_.as<int>() + count};
}

/// Copies numbers from the host to `room` on the device, which grows if necessary.
int const* Results::send(Lane const& lane, std::vector<int> const& numbers, DeviceBytes& room) {
  kernels_.memory().make_room(lane, room, numbers.size(), sizeof(int), "varve::results");
  lane.copy_to_device(room.data(), numbers.data(), numbers.size() * sizeof(int));
  return room.as<int>();
}

/// Copies the panel's last activations to the host in blocks of rows and keeps the wanted results. Saturated samples
/// have equal activations, so their prediction is output 0.
template <class Scalar>
void Results::collect_rows(Lane const& lane, Panel const& panel, SampleNumbers const& samples, SampleEnds const& ends,
                           std::size_t num_rows, PanelOutputs const& outputs, WantedOutputs wanted,
                           BatchResult& result) {
  std::size_t const width = outputs.num_outputs;
  Rows rows{std::vector<std::vector<NeuronIndex>>(wanted.activations ? num_rows : 0), {}};
  rows.values.resize(rows.columns.size());
  std::vector<NeuronIndex> largest(num_rows, 0);
  constexpr std::size_t most_values = std::size_t(1) << 25U;
  std::size_t const rows_at_a_time = std::max<std::size_t>(1, most_values / std::max<std::size_t>(1, width));
  for (std::size_t first = 0; first < num_rows; first += rows_at_a_time) {
    std::size_t const count = std::min(rows_at_a_time, num_rows - first);
    std::vector<Scalar> row_values(count * width);
    kernels_.gather_rows(lane, panel, outputs, first, count, row_values.data());
    for_each_on_host_threads(count, [&](std::size_t row) {
      Scalar const* const activations = row_values.data() + row * width;
      largest[first + row] = static_cast<NeuronIndex>(std::max_element(activations, activations + width) - activations);
      if (wanted.activations) rows.take(first + row, activations, width);
    });
  }
  if (wanted.predictions) {
    result.predictions.assign(samples.num_samples, 0);
    for (std::size_t i = 0; i < ends.live.size(); ++i)
      result.predictions[static_cast<std::size_t>(ends.live[i])] = largest[static_cast<std::size_t>(ends.position(i))];
  }
  if (wanted.activations) join_rows(samples, ends, rows, outputs, result);
}

} // namespace varve
