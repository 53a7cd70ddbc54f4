#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// Samples whose entries all have one value, as bits: bit s % 32 of word (s / 32) * num_neurons + i is set if sample s
/// has an entry at neuron i.
template <class Scalar>
struct SampleBits {
  static constexpr int samples_per_word = 32;

  ArrayView<std::uint32_t> words = {};
  int num_neurons = 0;
  ArrayView<Scalar const> value = {}; ///< one element: the value of all entries

  /// The words from neuron 0 of the group of 32 samples that contains this sample to the end.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<std::uint32_t> group(int first_sample) const {
    return part_of(words,
                   static_cast<std::size_t>(first_sample / samples_per_word) * static_cast<std::size_t>(num_neurons));
  }
};

/// Converts sparse samples to SampleBits: bit (i, s) = 1 if sample s has an entry at neuron i, else 0.
/// league: tasks, in strides; a task is 32 samples and a range of neurons, whose words a team assembles in scratch.
/// team threads: threads_per_sample for each sample. They find its first entry in the range by binary search and read
/// its entries interleaved. Reads each entry and writes each word once: bound by memory bandwidth, with few samples by
/// latency.
template <class ExecutionSpace, class Scalar>
struct SetSampleBits {
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int num_samples = SampleBits<Scalar>::samples_per_word;
  static constexpr int team_size = Tune::expand_team_size;
  static constexpr int max_neurons_per_task = Tune::expand_bytes / static_cast<int>(sizeof(std::uint32_t));
  static constexpr int threads_per_sample = team_size > num_samples ? team_size / num_samples : 1;
  static constexpr int in_flight = 8;

  DeviceSamples<ExecutionSpace, Scalar> samples;
  SampleBits<Scalar> bits;
  int neurons_per_task;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const words = ScratchArrays(team, Tune::expand_level, static_cast<std::size_t>(neurons_per_task) * 4, 64)
                           .template take<std::uint32_t>(static_cast<std::size_t>(neurons_per_task));
    int const ranges = (samples.num_neurons + neurons_per_task - 1) / neurons_per_task;
    int const num_tasks = num_tiles(samples.num_samples, num_samples) * ranges;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const first_sample = task / ranges * num_samples;
      int const first = task % ranges * neurons_per_task;
      int const rest = samples.num_neurons - first;
      int const count = rest < neurons_per_task ? rest : neurons_per_task;
      for (int i = team.team_rank(); i < count; i += team_size) words(i) = 0;
      team.team_barrier();
      for (int sample = team.team_rank() / threads_per_sample; sample < num_samples;
           sample += team_size / threads_per_sample) {
        if (first_sample + sample < samples.num_samples)
          set_sample(words, first_sample + sample, first, count, team.team_rank() % threads_per_sample);
      }
      team.team_barrier();
      auto const target = part_of(bits.group(first_sample), first, count);
      for (int i = team.team_rank(); i < count; i += team_size) target(i) = words(i);
      team.team_barrier();
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void set_sample(ArrayView<std::uint32_t> const& words, int sample, int first, int count,
                                              int thread) const {
    EdgeOffset const end = samples.row_pointers(sample + 1);
    EdgeOffset entry = samples.row_pointers(sample);
    if (first > 0)
      entry = first_not_before(entry, end,
                               [&](EdgeOffset one) { return samples.columns(one) < static_cast<NeuronIndex>(first); });
    std::uint32_t const bit = std::uint32_t(1) << (sample % num_samples);
    constexpr NeuronIndex none = ~NeuronIndex(0);
    auto const last = static_cast<NeuronIndex>(first + count);
    for (entry += static_cast<EdgeOffset>(thread); entry < end; entry += in_flight * threads_per_sample) {
      NeuronIndex neurons[in_flight]; // all loads are issued before the first use
      VARVE_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        EdgeOffset const next = entry + static_cast<EdgeOffset>(i * threads_per_sample);
        neurons[i] = next < end ? samples.columns(next) : none;
      }
      VARVE_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        if (neurons[i] < last) set_bits_in_scratch(&words(neurons[i] - static_cast<NeuronIndex>(first)), bit);
      }
      if (neurons[in_flight - 1] >= last) break;
    }
  }
};

/// One layer whose input samples are bits (SampleBits: each activation is `value` or zero):
///   next(j, s) = clip(fma-chain over the edges (j, i) whose bit (i, s) is set of weight(j, i) * value, + bias(j))
/// The result is bitwise equal to the chain over all edges, because a product with zero changes no sum.
/// league: tasks; a task is one tile and some outputs. team threads: outputs; a thread computes its output for all
/// samples of the tile. Does not stamp live samples. Per edge and tile it reads one word for each 32 samples: bound by
/// issue slots (two instructions per fma on a GPU, and per vector of fma on a CPU with masks).
template <class ExecutionSpace, class Format>
struct BinaryForward {
  static_assert(Format::block_outputs == 1);
  using Scalar = typename Format::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Tile = typename Tune::BinaryTile;
  using Policy = typename Tune::BinaryPolicy;
  using Member = typename Policy::member_type;
  static constexpr int samples_per_word = SampleBits<Scalar>::samples_per_word;
  static_assert(Tile::num_lanes == 1 && Tile::num_samples % samples_per_word == 0);
  static constexpr int words_per_tile = Tile::num_samples / samples_per_word;
  static constexpr int line_length = Tile::num_samples + 1; ///< padded by one: lines begin in different banks

  typename Format::Edges layer;
  SampleBits<Scalar> bits;
  LayerPass<Scalar> pass;
  int next_tile_samples; ///< samples of a tile of pass.next
  int outputs_per_task;

  /// Team scratch in bytes: a line of samples for each thread's output.
  KOKKOS_FORCEINLINE_FUNCTION static int scratch_bytes(int team_size) {
    return Tune::binary_gathers_lines ? team_size * line_length * static_cast<int>(sizeof(Scalar)) : 0;
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_outputs = layer.parameters.num_outputs;
    int const tasks_per_tile = (num_outputs + outputs_per_task - 1) / outputs_per_task;
    int const num_tasks = num_tiles(pass.num_samples(0), Tile::num_samples) * tasks_per_tile;
    ArrayView<Scalar> lines;
    if constexpr (Tune::binary_gathers_lines) {
      lines = ScratchArrays(team, 0, static_cast<std::size_t>(scratch_bytes(team.team_size())), 16)
                  .template take<Scalar>(static_cast<std::size_t>(team.team_size() * line_length));
    }
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const first_sample = task / tasks_per_tile * Tile::num_samples;
      int const first = task % tasks_per_tile * outputs_per_task;
      int const last = first + outputs_per_task < num_outputs ? first + outputs_per_task : num_outputs;
      for (int output = first; output < last; output += team.team_size()) {
        int const count = last - output < team.team_size() ? last - output : team.team_size();
        BlockSums<Tile, 1> sums;
        sums.clear_sums();
        if (team.team_rank() < count) compute(sums, output + team.team_rank(), first_sample);
        if constexpr (Tune::binary_gathers_lines) {
          store_lines(team, sums, output, count, first_sample, lines);
        } else {
          store(sums, output, first_sample);
        }
      }
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void compute(BlockSums<Tile, 1>& sums, int output, int first_sample) const {
    auto const words = bits.group(first_sample);
    Scalar const value = bits.value(0); // loaded once; a kernel parameter would be loaded again for every product
    constexpr int ahead = Format::Edges::edges_at_a_time;
    layer.for_each_edges(output, [&](auto const* inputs, auto const& weights_of) {
      std::uint32_t word[ahead][words_per_tile];
      VARVE_UNROLL
      for (int edge = 0; edge < ahead; ++edge) {
        VARVE_UNROLL
        for (int i = 0; i < words_per_tile; ++i)
          word[edge][i] = words(static_cast<std::size_t>(inputs[edge]) +
                                static_cast<std::size_t>(i) * static_cast<std::size_t>(bits.num_neurons));
      }
      VARVE_UNROLL
      for (int edge = 0; edge < ahead; ++edge) {
        Scalar const weight = weights_of(edge)[0];
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) {
          int const sample = Tile::sample_of(0, k);
          add_product_where(sums.sum[0][k], weight, value,
                            word[edge][sample / samples_per_word] >> sample % samples_per_word);
        }
      }
    });
    typename Tile::Seen seen[Tile::packs_per_lane]; // not used: this kernel does not stamp live samples
    for (auto& marks : seen) clear(marks);
    sums.finish_block(layer.parameters, output, seen);
  }

  /// Index of an activation in pass.next.
  KOKKOS_FORCEINLINE_FUNCTION std::size_t place_of(int output, int sample) const {
    return place_of_slot(sample, layer.parameters.num_outputs, next_tile_samples) +
           static_cast<std::size_t>(layer.parameters.neuron_of(output)) * static_cast<std::size_t>(next_tile_samples);
  }

  /// Stores the samples of one output pack by pack; no pack straddles tiles of pass.next, which hold a pack or more.
  KOKKOS_FORCEINLINE_FUNCTION void store(BlockSums<Tile, 1> const& sums, int output, int first_sample) const {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      copy(piece_at<typename Tile::PackType>(pass.next, place_of(output, first_sample + Tile::sample_of(0, k))),
           sums.sum[0][k]);
    }
  }

  /// Transposes through scratch: each thread writes its output's samples to scratch, then neighbouring threads store
  /// neighbouring samples to pass.next.
  KOKKOS_FORCEINLINE_FUNCTION void store_lines(Member const& team, BlockSums<Tile, 1> const& sums, int output,
                                               int count, int first_sample, ArrayView<Scalar> const& lines) const {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      VARVE_UNROLL
      for (int i = 0; i < Tile::pack_width; ++i)
        lines(team.team_rank() * line_length + Tile::sample_of(0, k) + i) = sums.sum[0][k].lane[i];
    }
    team.team_barrier();
    for (int i = team.team_rank(); i < count * Tile::num_samples; i += team.team_size()) {
      int const line = i / Tile::num_samples;
      int const sample = i % Tile::num_samples;
      pass.next(place_of(output + line, first_sample + sample)) = lines(line * line_length + sample);
    }
    team.team_barrier();
  }
};

/// Launches SetSampleBits. Does not fence.
template <class ExecutionSpace, class Scalar>
void set_sample_bits(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, Scalar> const& samples,
                     SampleBits<Scalar> bits) {
  using Kernel = SetSampleBits<ExecutionSpace, Scalar>;
  if (samples.num_samples == 0 || samples.num_neurons == 0) return;
  int const neurons_per_task = std::min(samples.num_neurons, +Kernel::max_neurons_per_task);
  int const ranges = (samples.num_neurons + neurons_per_task - 1) / neurons_per_task;
  int const num_tasks = num_tiles(samples.num_samples, +Kernel::num_samples) * ranges;
  int const teams = Kernel::Tune::league_size(num_processors(space), num_tasks);
  launch_teams("varve::set_sample_bits", typename Kernel::Policy(space, teams, +Kernel::team_size),
               Kernel{samples, bits, neurons_per_task}, Kernel::Tune::expand_level,
               static_cast<std::size_t>(neurons_per_task) * 4 + 128);
}

/// Launches BinaryForward. Does not fence.
template <class ExecutionSpace, class Format>
void binary_forward(ExecutionSpace const& space, Format const& layer, SampleBits<typename Format::Scalar> bits,
                    LayerPass<typename Format::Scalar> const& pass, int next_tile_samples) {
  using Kernel = BinaryForward<ExecutionSpace, Format>;
  using Tune = Tuning<ExecutionSpace, typename Format::Scalar>;
  int const tiles = num_tiles(pass.max_samples, Kernel::Tile::num_samples);
  int const num_outputs = layer.num_outputs();
  if (tiles == 0 || num_outputs == 0) return;
  int const team_size = Tune::binary_team_size(num_outputs);
  int const outputs_per_task = Tune::blocks_per_task(num_processors(space), tiles, num_outputs, team_size);
  int const num_tasks = tiles * ((num_outputs + outputs_per_task - 1) / outputs_per_task);
  typename Kernel::Policy policy(space, num_tasks, team_size);
  if (Tune::binary_gathers_lines) policy.set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes(team_size) + 128));
  launch_teams("varve::binary_forward", policy, Kernel{layer.edges(), bits, pass, next_tile_samples, outputs_per_task});
}

} // namespace varve
