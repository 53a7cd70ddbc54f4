#include "engine/results.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace varve {
namespace {

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

/// Moves the rows of all samples of the batch to result.activations, in order.
void join_rows(SampleNumbers const& samples, SampleEnds const& ends, Rows rows, PanelOutputs const& outputs,
               BatchResult& result) {
  SparseMatrix& matrix = result.activations.matrix;
  result.activations.first_sample = samples.first_sample;
  matrix.num_rows = samples.num_samples;
  matrix.num_columns = outputs.num_outputs;
  auto const end_of = end_of_samples(samples, ends);
  bool is_in_order = rows.row_pointers.size() == end_of.size() + 1; // each position is the sample of its number
  for (std::size_t sample = 0; is_in_order && sample < end_of.size(); ++sample)
    is_in_order = end_of[sample] == static_cast<int>(sample);
  if (is_in_order) {
    matrix.row_pointers = std::move(rows.row_pointers);
    matrix.column_indices = std::move(rows.columns);
    matrix.values = std::move(rows.values);
    return;
  }
  auto const first_of = [&](std::size_t position) { return static_cast<std::ptrdiff_t>(rows.row_pointers[position]); };
  matrix.row_pointers.reserve(end_of.size() + 1);
  for (int const end : end_of) {
    auto const position = static_cast<std::size_t>(std::max(end, 0));
    auto const num_entries = end == kSaturatedSample ? matrix.num_columns
                             : end == kDeadSample    ? 0
                                                     : rows.row_pointers[position + 1] - rows.row_pointers[position];
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
      auto const position = static_cast<std::size_t>(end_of[sample]);
      std::copy(rows.columns.begin() + first_of(position), rows.columns.begin() + first_of(position + 1), columns);
      std::copy(rows.values.begin() + first_of(position), rows.values.begin() + first_of(position + 1), values);
    }
  });
}

} // namespace

std::vector<int> Results::fetch_counts(Stream const& stream, Panel const& panel) {
  return fetch(stream, panel.arrays().counts, panel.arrays().num_counts);
}

void Results::collect(Stream const& stream, Panel const& panel, std::vector<int> const& counts,
                      SampleNumbers const& samples, PanelOutputs const& outputs, WantedOutputs wanted,
                      BatchResult& result) {
  SampleEnds const ends = summarize(stream, panel, counts, samples, outputs, result);
  auto rows = wanted;
  if (wanted.digests && kernels_.memory().is_host()) {
    rows.activations = true;
  } else if (wanted.digests) {
    result.digests.resize(samples.num_samples);
    kernels_.digest_outputs(stream, panel, outputs, send(stream, end_of_samples(samples, ends), ends_), samples,
                            result.digests);
  }
  if (!rows.activations && !rows.predictions) return;
  std::size_t const num_rows = num_live(panel, counts);
  if (kernels_.scalar_bytes() == sizeof(float)) {
    collect_rows<float>(stream, panel, samples, ends, num_rows, outputs, rows, result);
  } else {
    collect_rows<double>(stream, panel, samples, ends, num_rows, outputs, rows, result);
  }
  if (wanted.digests && result.digests.empty()) result.digests = output_digests(result.activations);
  if (!wanted.activations) result.activations = {};
}

void Results::write(Stream const& stream, Panel const& panel, std::vector<int> const& counts,
                    SampleNumbers const& samples, PanelOutputs const& outputs, DeviceOutput const& target,
                    BatchResult& result) {
  SampleEnds const ends = summarize(stream, panel, counts, samples, outputs, result);
  kernels_.write_rows(stream, panel, outputs, send(stream, end_of_samples(samples, ends), ends_), target);
}

/// Sets hash, live samples and their counts.
SampleEnds Results::summarize(Stream const& stream, Panel const& panel, std::vector<int> const& counts,
                              SampleNumbers const& samples, PanelOutputs const& outputs, BatchResult& result) {
  auto const num_saturated = static_cast<std::size_t>(counts.back());
  SampleEnds ends = find_ends(stream, panel, samples.num_samples, num_live(panel, counts), num_saturated);
  result.activation_hash = hash_live(stream, panel, ends, outputs, samples.first_sample) +
                           hash_saturated(stream, panel, ends, outputs, samples.first_sample);
  result.num_saturated = ends.saturated.size();
  result.num_represented = ends.live.size() + ends.saturated.size() - num_live(panel, counts) - num_saturated;
  list_live_samples(samples, ends, result.live_samples);
  return ends;
}

SampleEnds Results::find_ends(Stream const& stream, Panel const& panel, std::size_t num_samples, std::size_t num_live,
                              std::size_t num_saturated) {
  SampleEnds ends;
  auto const arrays = panel.arrays();
  auto live = fetch(stream, arrays.ids, num_live);
  auto saturated = fetch(stream, arrays.saturated, num_saturated);
  if (arrays.represented_by == nullptr) {
    ends.live = std::move(live);
    ends.saturated = std::move(saturated);
    return ends;
  }
  ends.has_represented = true;
  auto const represented_by = fetch(stream, arrays.represented_by, num_samples);
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

std::uint64_t Results::hash_live(Stream const& stream, Panel const& panel, SampleEnds const& ends,
                                 PanelOutputs const& outputs, SampleIndex first_sample) {
  if (ends.live.empty()) return 0;
  SamplesInPanel samples{panel.arrays().ids, nullptr, ends.live.size()};
  if (ends.has_represented) {
    samples.ids = send(stream, ends.live, ids_);
    samples.positions = send(stream, ends.positions, positions_);
  }
  return kernels_.hash(stream, panel, samples, outputs, first_sample);
}

std::uint64_t Results::hash_saturated(Stream const& stream, Panel const& panel, SampleEnds const& ends,
                                      PanelOutputs const& outputs, SampleIndex first_sample) {
  if (ends.saturated.empty()) return 0;
  auto const* const ids = ends.has_represented ? send(stream, ends.saturated, ids_) : panel.arrays().saturated;
  return kernels_.hash_saturated(stream, ids, ends.saturated.size(), outputs, first_sample);
}

/// Copies `count` numbers from the device. Waits for the stream, but not for uploads of samples.
std::vector<int> Results::fetch(Stream const& stream, int const* numbers, std::size_t count) {
  if (kernels_.memory().is_host()) return {numbers, numbers + count};
  kernels_.memory().make_room_on_host(stream, fetched_, count, sizeof(int), "varve::results");
  stream.copy_to_host(fetched_.data(), numbers, count * sizeof(int));
  stream.fence("varve: results have arrived");
  return {fetched_.as<int>(), fetched_.as<int>() + count};
}

/// Copies numbers from the host to `room` on the device, which grows if necessary.
int const* Results::send(Stream const& stream, std::vector<int> const& numbers, DeviceBytes& room) {
  kernels_.memory().make_room(stream, room, numbers.size(), sizeof(int), "varve::results");
  stream.copy_to_device(room.data(), numbers.data(), numbers.size() * sizeof(int));
  return room.as<int>();
}

/// Copies the panel's last activations to the host in blocks of rows and keeps the wanted results. Saturated samples
/// have equal activations, so their prediction is output 0.
template <class Scalar>
void Results::collect_rows(Stream const& stream, Panel const& panel, SampleNumbers const& samples,
                           SampleEnds const& ends, std::size_t num_rows, PanelOutputs const& outputs,
                           WantedOutputs wanted, BatchResult& result) {
  std::size_t const width = outputs.num_outputs;
  Rows rows;
  std::vector<NeuronIndex> largest(wanted.predictions ? num_rows : 0, 0);
  constexpr std::size_t max_values = std::size_t(1) << 25U;
  std::size_t const rows_at_a_time = std::max<std::size_t>(1, max_values / std::max<std::size_t>(1, width));
  for (std::size_t first = 0; first < num_rows; first += rows_at_a_time) {
    std::size_t const count = std::min(rows_at_a_time, num_rows - first);
    std::vector<Scalar> dense(count * width);
    kernels_.gather_rows(stream, panel, outputs, first, count, dense.data());
    if (wanted.predictions) {
      for_each_on_host_threads(count, [&](std::size_t row) {
        auto const* const numbers = dense.data() + row * width;
        largest[first + row] = static_cast<NeuronIndex>(std::max_element(numbers, numbers + width) - numbers);
      });
    }
    if (wanted.activations) rows.add(dense.data(), count, width);
  }
  if (wanted.predictions) {
    result.predictions.assign(samples.num_samples, 0);
    for (std::size_t i = 0; i < ends.live.size(); ++i)
      result.predictions[static_cast<std::size_t>(ends.live[i])] = largest[static_cast<std::size_t>(ends.position(i))];
  }
  if (wanted.activations) join_rows(samples, ends, std::move(rows), outputs, result);
}

} // namespace varve
