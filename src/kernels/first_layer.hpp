#pragma once

#include "core/execution.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// First layer for samples whose entries all have one value, if all edges have one weight and all outputs one bias:
///   next(j, s) = clip(chain of n fma of weight * value, + bias), n = number of inputs of j at which s has an entry
/// The result is bitwise equal to the chain over all edges, because a product with zero changes no sum.
/// league: tasks, in strides; a task is some samples, whose counts a team keeps in scratch, four outputs to a word.
/// team threads: first entries of samples (several threads read one sample interleaved), then words of counts. A table
/// in scratch holds the results for all n. Does not stamp live samples. Reads each entry and writes each activation
/// once, and adds to scratch once per entry and reader: bound by issue slots on a GPU (72 % at 1024 neurons, memory 14
/// %; perf/PROFILES.md).
template <class ExecutionSpace, class Layer>
struct CountedForward {
  using Scalar = typename Layer::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int team_size = Tune::expand_team_size;
  static constexpr int outputs_per_word = Layer::outputs_per_word;
  static constexpr int in_flight = 8;

  typename Layer::Edges layer;
  DeviceSamples<ExecutionSpace, Scalar> samples;
  ArrayView<Scalar> next;
  int next_tile_samples;
  int log2_samples; ///< binary logarithm of the samples of a task

  /// Team scratch in bytes: the table and the counts.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int degree, int num_outputs, int num_samples) {
    return static_cast<std::size_t>(degree + 1) * sizeof(Scalar) +
           static_cast<std::size_t>(Layer::num_words(num_outputs) * num_samples) * sizeof(std::uint32_t);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const words = Layer::num_words(layer.num_outputs);
    int const words_used = Layer::num_words_used(layer.num_outputs);
    int const samples_per_task = 1 << log2_samples;
    int const samples_at_a_time = samples_per_task < team_size ? samples_per_task : team_size;
    int const threads_per_sample = team_size / samples_at_a_time;
    ScratchArrays scratch(team, Tune::expand_level, scratch_bytes(layer.degree, layer.num_outputs, samples_per_task),
                          16);
    auto const table = scratch.take<Scalar>(static_cast<std::size_t>(layer.degree + 1));
    auto const counts = scratch.take<std::uint32_t>(static_cast<std::size_t>(words * samples_per_task));
    for (int n = team.team_rank(); n <= layer.degree; n += team_size) table(n) = result_of(n);
    int const num_tasks = num_tiles(samples.num_samples, samples_per_task);
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const first = task * samples_per_task;
      for (int i = team.team_rank(); i < words * samples_per_task; i += team_size) counts(i) = 0;
      team.team_barrier();
      for (int sample = team.team_rank() / threads_per_sample; sample < samples_per_task; sample += samples_at_a_time) {
        if (first + sample < samples.num_samples)
          count_entries(first + sample, team.team_rank() % threads_per_sample, threads_per_sample,
                        part_of(counts, sample * words, words));
      }
      team.team_barrier();
      // Neighbouring threads store neighbouring samples of one output.
      for (int sample = team.team_rank() % samples_at_a_time; sample < samples_per_task; sample += samples_at_a_time) {
        if (first + sample >= samples.num_samples) continue;
        auto const target = sample_of_slot(next, first + sample, layer.num_outputs, next_tile_samples);
        for (int word = team.team_rank() / samples_at_a_time; word < words_used; word += threads_per_sample)
          store(target, word, words_used, counts(sample * words + word), table);
      }
      team.team_barrier();
    }
  }

private:
  /// For each input, the index of the byte that counts for the r-th output that reads it.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<std::uint16_t const> places_of_reader(int r) const {
    auto const num_inputs = static_cast<std::size_t>(layer.num_inputs + 1);
    return part_of(layer.places, static_cast<std::size_t>(r) * num_inputs, num_inputs);
  }

  /// The activation of an output that has n inputs with an entry.
  KOKKOS_FORCEINLINE_FUNCTION Scalar result_of(int n) const {
    Pack<Scalar, 1> sum{{Scalar(0)}};
    Pack<Scalar, 1> const value{{samples.values(0)}};
    for (int i = 0; i < n; ++i) add_product(sum, layer.weight, value);
    finish(sum, layer.bias, layer.bounds);
    return sum.lane[0];
  }

  KOKKOS_FORCEINLINE_FUNCTION void count_entries(int sample, [[maybe_unused]] int thread,
                                                 [[maybe_unused]] int num_threads,
                                                 ArrayView<std::uint32_t> const& counts) const {
    EdgeOffset const first = samples.row_pointers(sample);
    auto const num_entries = static_cast<int>(samples.row_pointers(sample + 1) - first);
    auto const entries = part_of(samples.columns, first, static_cast<std::size_t>(num_entries));
    // clang-format off
    KOKKOS_IF_ON_DEVICE((count_in_words(entries, num_entries, thread, num_threads, counts);))
    KOKKOS_IF_ON_HOST((count_in_bytes(entries, num_entries, counts);))
    // clang-format on
  }

  KOKKOS_FORCEINLINE_FUNCTION void count_in_words(ArrayView<NeuronIndex const> const& entries, int num_entries,
                                                  int thread, int num_threads,
                                                  ArrayView<std::uint32_t> const& counts) const {
    std::uint16_t const none = Layer::place_of_none(layer.num_outputs);
    for (int entry = thread; entry < num_entries; entry += in_flight * num_threads) {
      int inputs[in_flight]; // all loads are issued before the first use
      VARVE_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        int const number = entry + i * num_threads;
        inputs[i] = number < num_entries ? static_cast<int>(entries(number)) : layer.num_inputs; // else: no readers
      }
      // A running pointer: with a View per reader fewer loads are in flight (1.1 times as long).
      std::uint16_t const* of_inputs = elements_of(layer.places, 0, layer.places.size());
      for (int r = 0; r < layer.max_readers; ++r, of_inputs += layer.num_inputs + 1) {
        std::uint16_t places[in_flight];
        VARVE_UNROLL
        for (int i = 0; i < in_flight; ++i) places[i] = of_inputs[inputs[i]];
        VARVE_UNROLL
        for (int i = 0; i < in_flight; ++i) {
          if (places[i] != none) add_in_scratch(&counts(places[i] / outputs_per_word), 1U << places[i] % 4U * 8U);
        }
      }
    }
  }

  /// Host only: counts without atomics, because a team is one thread, in bytes of little-endian words.
  KOKKOS_FORCEINLINE_FUNCTION void count_in_bytes(ArrayView<NeuronIndex const> const& entries, int num_entries,
                                                  ArrayView<std::uint32_t> const& counts) const {
    for (int r = 0; r < layer.max_readers; ++r) {
      auto const of_inputs = places_of_reader(r);
      for (int entry = 0; entry < num_entries; ++entry) ++piece_of<unsigned char>(counts, of_inputs(entries(entry)));
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void store(ArrayView<Scalar> const& target, int word, int words_used,
                                         std::uint32_t counts, ArrayView<Scalar const> const& table) const {
    VARVE_UNROLL
    for (int byte = 0; byte < outputs_per_word; ++byte) {
      int const output = byte * words_used + word;
      if (output < layer.num_outputs)
        target(static_cast<std::size_t>(output) * static_cast<std::size_t>(next_tile_samples)) =
            table(counts >> 8 * byte & 255U);
    }
  }
};

/// Launches CountedForward. Does not fence.
template <class ExecutionSpace, class Layer>
void counted_forward(ExecutionSpace const& space, Layer const& layer,
                     DeviceSamples<ExecutionSpace, typename Layer::Scalar> const& samples,
                     ArrayView<typename Layer::Scalar> const& next, int next_tile_samples) {
  using Kernel = CountedForward<ExecutionSpace, Layer>;
  using Tune = typename Kernel::Tune;
  if (samples.num_samples == 0) return;
  auto const edges = layer.edges();
  int log2_samples = Tune::log2_counted_samples;
  auto const bytes = [&] { return Kernel::scratch_bytes(edges.degree, edges.num_outputs, 1 << log2_samples); };
  while (log2_samples > 3 && bytes() > Tune::max_counted_bytes) --log2_samples;
  int const num_tasks = num_tiles(samples.num_samples, 1 << log2_samples);
  typename Kernel::Policy const policy(space, Tune::league_size(num_processors(space), num_tasks), +Kernel::team_size);
  launch_teams("varve::counted_forward", policy, Kernel{edges, samples, next, next_tile_samples, log2_samples},
               Tune::expand_level, bytes() + 128);
}

/// First layer for samples with few entries, which reads only the edges of these entries:
///   next(j, s) = clip(chain of fma over the entries i of s that j reads, ascending, of weight(j, i) * value(i, s),
///                     + bias(j))
/// The result is bitwise equal to the chain over all edges: a product with zero changes no sum, and edges ascend.
/// league: groups of Tune::entry_samples samples, whose sums a team keeps in scratch. team threads: the edges of one
/// entry, which lead to different outputs; then outputs. Does not stamp live samples. Reads each entry once, the edges
/// of its input once per entry, and writes each activation once: bound by the latency of edges, which are loaded
/// together for one entry.
template <class ExecutionSpace, class Layer>
struct EntryForward {
  using Scalar = typename Layer::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int team_size = Tune::entry_team_size;
  static constexpr int num_samples = Tune::entry_samples;
  using Sums = Pack<Scalar, num_samples>; ///< sums of an output for all samples of a team

  typename Layer::Edges layer;
  DeviceSamples<ExecutionSpace, Scalar> samples;
  ArrayView<Scalar> next;
  int next_tile_samples;

  /// Team scratch in bytes: the sums.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int num_outputs) {
    return static_cast<std::size_t>(num_outputs) * sizeof(Sums);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_outputs = layer.parameters.num_outputs;
    auto const sums = ScratchArrays(team, Tune::expand_level, scratch_bytes(num_outputs), alignof(Sums))
                          .template take<Sums>(static_cast<std::size_t>(num_outputs));
    for (int output = team.team_rank(); output < num_outputs; output += team_size) clear(sums(output));
    team.team_barrier();
    int const first = team.league_rank() * num_samples;
    int const count = samples.num_samples - first < num_samples ? samples.num_samples - first : num_samples;
    for (int i = 0; i < count; ++i) add_entries(team, first + i, i, sums);
    for (int output = team.team_rank(); output < num_outputs; output += team_size) {
      finish(sums(output), layer.parameters.bias_of(output), layer.parameters.bounds);
      for (int i = 0; i < count; ++i) {
        auto const target = sample_of_slot(next, first + i, num_outputs, next_tile_samples);
        target(static_cast<std::size_t>(output) * static_cast<std::size_t>(next_tile_samples)) = sums(output).lane[i];
      }
    }
  }

private:
  /// Adds the products of all entries of a sample to lane i of the sums, one entry after the other.
  KOKKOS_FORCEINLINE_FUNCTION void add_entries(Member const& team, int sample, int i,
                                               ArrayView<Sums> const& sums) const {
    EdgeOffset const last_entry = samples.row_pointers(sample + 1);
    for (EdgeOffset entry = samples.row_pointers(sample); entry < last_entry; ++entry) {
      auto const input = samples.columns(entry);
      Pack<Scalar, 1> const value{{samples.values(entry * static_cast<EdgeOffset>(samples.value_stride))}};
      EdgeOffset const last = layer.column_pointers(input + 1);
      for (auto edge = layer.column_pointers(input) + static_cast<EdgeOffset>(team.team_rank()); edge < last;
           edge += team_size) {
        Scalar& lane = sums(layer.outputs(edge)).lane[i];
        Pack<Scalar, 1> sum{{lane}};
        add_product(sum, layer.weights(edge), value);
        lane = sum.lane[0];
      }
      team.team_barrier();
    }
  }
};

/// Launches EntryForward. Does not fence.
template <class ExecutionSpace, class Layer>
void entry_forward(ExecutionSpace const& space, Layer const& layer,
                   DeviceSamples<ExecutionSpace, typename Layer::Scalar> const& samples,
                   ArrayView<typename Layer::Scalar> const& next, int next_tile_samples) {
  using Kernel = EntryForward<ExecutionSpace, Layer>;
  using Tune = typename Kernel::Tune;
  if (samples.num_samples == 0) return;
  int const num_teams = num_tiles(samples.num_samples, Tune::entry_samples);
  launch_teams("varve::entry_forward", typename Kernel::Policy(space, num_teams, +Kernel::team_size),
               Kernel{layer.edges(), samples, next, next_tile_samples}, Tune::expand_level,
               Kernel::scratch_bytes(layer.num_outputs()) + 128);
}

} // namespace varve
