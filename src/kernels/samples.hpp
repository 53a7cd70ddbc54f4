#pragma once

#include "core/execution.hpp"
#include "core/sha256_block.hpp"
#include "core/types.hpp"
#include "core/views.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace varve {

/// Sparse samples in device memory, in CSR: sample s has the entries [row_pointers(s), row_pointers(s + 1)).
template <class ExecutionSpace, class Scalar>
struct DeviceSamples {
  int num_samples = 0;
  int num_neurons = 0;
  ConstDeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> columns;
  ConstDeviceArray<ExecutionSpace, Scalar> values; ///< one per entry, or one for all entries
  int value_stride = 0;                            ///< 1: one value per entry; 0: one value for all
};

/// Writes sparse samples into the tiles of a panel: tile(neuron, s) = value of the entry, or 0 if there is none.
/// league: tiles, in strides; a team assembles its tile in scratch, some neurons at a time. team threads: entries of
/// one or more samples; if there are more threads than samples, several threads read one sample interleaved. Reads each
/// entry and writes every activation of the panel once: bound by memory bandwidth.
template <class ExecutionSpace, class Tile>
struct ExpandSamples {
  using Scalar = typename Tile::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int team_size = Tune::expand_team_size;
  static constexpr int neurons_at_a_time = Tune::expand_bytes / (num_samples * static_cast<int>(sizeof(Scalar)));
  static constexpr int threads_per_sample = team_size > num_samples ? team_size / num_samples : 1;
  static constexpr int samples_per_thread = team_size < num_samples ? num_samples / team_size : 1;
  static constexpr int line_samples = std::min(num_samples, 16 / static_cast<int>(sizeof(Scalar)));
  using Line = Pack<Scalar, line_samples>; ///< at most 16 bytes, which a thread clears or copies at a time
  static constexpr int lines_per_neuron = num_samples / line_samples;

  DeviceSamples<ExecutionSpace, Scalar> samples;
  ArrayView<Scalar> target;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const part = ScratchArrays(team, Tune::expand_level, Tune::expand_bytes, 64)
                          .template take<Scalar>(static_cast<std::size_t>(neurons_at_a_time) * num_samples);
    for_lines(team, neurons_at_a_time, [&](int line) { clear(piece_of<Line>(part, line)); });
    team.team_barrier();
    int const tiles = num_tiles(samples.num_samples, num_samples);
    for (int tile = team.league_rank(); tile < tiles; tile += team.league_size()) {
      EdgeOffset entry[samples_per_thread];
      EdgeOffset end[samples_per_thread];
      for (int i = 0; i < samples_per_thread; ++i) {
        int const sample = tile * num_samples + sample_of(team, i);
        bool const exists = sample < samples.num_samples;
        entry[i] = exists ? samples.row_pointers(sample) + team.team_rank() % threads_per_sample : 0;
        end[i] = exists ? samples.row_pointers(sample + 1) : 0;
      }
      auto const activations = tile_of(target, tile, samples.num_neurons, num_samples);
      for (int first = 0; first < samples.num_neurons; first += neurons_at_a_time) {
        int const rest = samples.num_neurons - first;
        int const count = rest < neurons_at_a_time ? rest : neurons_at_a_time;
        for (int i = 0; i < samples_per_thread; ++i)
          entry[i] = scatter(entry[i], end[i], first, count, part_of(part, sample_of(team, i)));
        team.team_barrier();
        auto const lines = part_of(activations, static_cast<std::size_t>(first) * num_samples);
        for_lines(team, count, [&](int line) {
          copy(piece_of<Line>(lines, line), piece_of<Line>(part, line));
          clear(piece_of<Line>(part, line));
        });
        team.team_barrier();
      }
    }
  }

private:
  /// Index in the tile of a thread's i-th sample.
  KOKKOS_FORCEINLINE_FUNCTION static int sample_of(Member const& team, int i) {
    return team.team_rank() / threads_per_sample + i * team_size;
  }

  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION static void for_lines(Member const& team, int num_neurons, Work const& work) {
    for (int line = team.team_rank(); line < num_neurons * lines_per_neuron; line += team_size) work(line);
  }

  /// Writes a sample's entries of neurons [first, first + count) to `part`; returns the next entry.
  KOKKOS_FORCEINLINE_FUNCTION EdgeOffset scatter(EdgeOffset entry, EdgeOffset end, int first, int count,
                                                 ArrayView<Scalar> const& part) const {
    for (; entry < end; entry += threads_per_sample) {
      int const neuron = static_cast<int>(samples.columns(entry)) - first;
      if (neuron >= count) break;
      part(neuron * num_samples) = samples.values(entry * static_cast<EdgeOffset>(samples.value_stride));
    }
    return entry;
  }
};

/// Launches ExpandSamples. Does not fence.
template <class ExecutionSpace, class Tile>
void expand_samples(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, typename Tile::Scalar> const& samples,
                    ArrayView<typename Tile::Scalar> const& target) {
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  using Kernel = ExpandSamples<ExecutionSpace, Tile>;
  int const tiles = num_tiles(samples.num_samples, Tile::num_samples);
  if (tiles == 0) return;
  launch_teams("varve::expand_samples",
               typename Kernel::Policy(space, Tune::league_size(num_processors(space), tiles), +Kernel::team_size),
               Kernel{samples, target}, Tune::expand_level, Tune::expand_bytes + 128);
}

/// The last activations of the samples of a batch, most of which are in a panel.
template <class Scalar>
struct LastActivations {
  static constexpr int is_dead = -1;
  static constexpr int is_saturated = -2;

  ArrayView<Scalar const> panel;
  int tile_samples;
  ArrayView<int const> from_slot;       ///< empty: position p is in slot p
  ArrayView<NeuronIndex const> neurons; ///< neuron of the panel for each output; empty: output j is neuron j
  ArrayView<int const> ends;            ///< [sample]: its position, is_dead or is_saturated
  int num_neurons;                      ///< neurons in the panel
  Scalar saturated_value;               ///< all last activations of a saturated sample

  /// The last activation of a sample with this end.
  KOKKOS_FORCEINLINE_FUNCTION Scalar number(int end, std::size_t output) const {
    if (end < 0) return end == is_saturated ? saturated_value : Scalar(0);
    int const slot = from_slot.data() == nullptr ? end : from_slot(end);
    std::size_t const neuron = neurons.data() == nullptr ? output : neurons(output);
    return panel(place_of_slot(slot, num_neurons, tile_samples) + neuron * static_cast<std::size_t>(tile_samples));
  }
};

/// SHA-256 of 32-bit numbers as they lie in memory, byte after byte.
class WordHash {
public:
  KOKKOS_FUNCTION void add(std::uint32_t number) {
    block_[num_words_++ % 16] = reversed(number);
    if (num_words_ % 16 == 0) state_.add(block_);
  }
  KOKKOS_FUNCTION void add(std::uint64_t number) {
    add(static_cast<std::uint32_t>(number));
    add(static_cast<std::uint32_t>(number >> 32U));
  }

  /// Writes the hash as eight numbers; nothing may be added afterwards.
  KOKKOS_FUNCTION void finish(std::uint32_t* digest) {
    std::uint64_t const num_bits = num_words_ * 32;
    add(std::uint32_t{0x80});
    while (num_words_ % 16 != 14) add(std::uint32_t{0});
    add(reversed(static_cast<std::uint32_t>(num_bits >> 32U)));
    add(reversed(static_cast<std::uint32_t>(num_bits)));
    for (int word = 0; word < 8; ++word) digest[word] = reversed(state_.words[word]);
  }

private:
  KOKKOS_FUNCTION static std::uint32_t reversed(std::uint32_t word) {
    return word << 24U | (word << 8U & 0xff0000U) | (word >> 8U & 0xff00U) | word >> 24U;
  }

  Sha256State state_;
  std::uint32_t block_[16]{};
  std::uint64_t num_words_ = 0;
};

/// digests(s) = SampleLeaves::output (receipts/digests.hpp) of sample s, eight numbers: the hash of its number, of the
/// count and the places of its nonzero last activations, and of these, in double; one stands for all if all are equal.
/// Index: sample. Reads the activations of each live sample three times, and hashes 4 to 12 bytes of each, one after
/// the other: with few live samples bound by the latency of that chain.
template <class Scalar>
struct DigestOutputs {
  LastActivations<Scalar> source;
  std::uint64_t first_sample;
  int num_outputs;
  ArrayView<std::uint32_t> digests; ///< [sample][8]

  KOKKOS_FUNCTION void operator()(std::size_t sample) const {
    int const end = source.ends(sample);
    std::uint64_t count = 0;
    bool are_equal = true;
    Scalar one = 0;
    for_each_nonzero(end, [&](int, Scalar number) {
      if (count++ == 0) one = number;
      are_equal = are_equal && number == one;
    });
    WordHash hash;
    for (std::uint32_t const word : {0x72617600U, 0x6f206576U, 0x75707475U, 0x0a312074U}) // "\0varve output 1\n"
      hash.add(word);
    hash.add(first_sample + sample);
    hash.add(count);
    for_each_nonzero(end, [&](int output, Scalar) { hash.add(static_cast<std::uint32_t>(output)); });
    bool is_first = true;
    for_each_nonzero(end, [&](int, Scalar number) {
      if (is_first || !are_equal) hash.add(Kokkos::bit_cast<std::uint64_t>(static_cast<double>(number)));
      is_first = false;
    });
    hash.finish(&digests(8 * sample));
  }

private:
  /// Calls work(output, number) for the nonzero last activations of a sample, eight of which are read at a time.
  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_nonzero(int end, Work const& work) const {
    constexpr int at_a_time = 8;
    if (end == LastActivations<Scalar>::is_dead) return;
    for (int first = 0; first < num_outputs; first += at_a_time) {
      Scalar numbers[at_a_time];
      VARVE_UNROLL
      for (int i = 0; i < at_a_time; ++i)
        numbers[i] = first + i < num_outputs ? source.number(end, static_cast<std::size_t>(first + i)) : Scalar(0);
      for (int i = 0; i < at_a_time; ++i) {
        if (numbers[i] != Scalar(0)) work(first + i, numbers[i]);
      }
    }
  }
};

/// Transposes samples of a panel to rows: rows(p, output) = the last activation of the sample at position first + p.
/// Index: element of `rows`. Reads and writes each activation once.
template <class Scalar>
struct GatherRows {
  LastActivations<Scalar> source;
  int first;
  int num_outputs;
  ArrayView<Scalar> rows;

  KOKKOS_FUNCTION void operator()(std::size_t place) const {
    auto const width = static_cast<std::size_t>(num_outputs);
    rows(place) = source.number(first + static_cast<int>(place / width), place % width);
  }
};

/// Sum of the fingerprints of all nonzero activations (network/sample_set.hpp). Index i: the sample first_sample +
/// ids(i), at position positions(i) of the panel.
template <class ExecutionSpace, class Scalar>
struct HashActivations {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;

  ArrayView<Scalar const> panel;
  int tile_samples;
  ArrayView<int const> from_slot; ///< empty: position p is in slot p
  ArrayView<int const> positions; ///< empty: sample i is at position i
  ArrayView<int const> ids;
  ArrayView<NeuronIndex const> neurons; ///< neuron of the panel for each output; empty: output j is neuron j
  int num_neurons;                      ///< neurons in the panel
  int num_outputs;
  std::uint64_t first_sample;

  KOKKOS_FUNCTION void operator()(int i, std::uint64_t& sum) const {
    std::uint64_t const sample = first_sample + static_cast<std::uint64_t>(ids(i));
    int const position = positions.data() == nullptr ? i : positions(i);
    int const slot = from_slot.data() == nullptr ? position : from_slot(position);
    auto const activations = sample_of_slot(panel, slot, num_neurons, tile_samples);
    for (int output = 0; output < num_outputs; ++output) {
      std::size_t const neuron = neurons.data() == nullptr ? static_cast<std::size_t>(output) : neurons(output);
      Scalar const value = activations(neuron * static_cast<std::size_t>(tile_samples));
      if (value != Scalar(0))
        sum += activation_fingerprint(sample, static_cast<std::uint64_t>(output), Kokkos::bit_cast<Bits>(value));
    }
  }
};

/// The sum of HashActivations for samples whose activations all equal `value`.
template <class Scalar>
struct HashEqualActivations {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;

  Scalar value;
  ArrayView<int const> ids;
  int num_outputs;
  std::uint64_t first_sample;

  KOKKOS_FUNCTION void operator()(int position, std::uint64_t& sum) const {
    std::uint64_t const sample = first_sample + static_cast<std::uint64_t>(ids(position));
    for (int output = 0; output < num_outputs; ++output)
      sum += activation_fingerprint(sample, static_cast<std::uint64_t>(output), Kokkos::bit_cast<Bits>(value));
  }
};

/// to(i) = from(i): converts numbers that were copied to the device in a narrower type. Index: number. Bound by memory
/// bandwidth.
template <class Narrow, class Wide>
struct Widen {
  ArrayView<Narrow const> from;
  ArrayView<Wide> to;

  KOKKOS_FUNCTION void operator()(std::size_t i) const { to(i) = static_cast<Wide>(from(i)); }
};

} // namespace varve
