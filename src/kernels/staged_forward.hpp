#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "core/large_scratch.hpp"
#include "core/pack.hpp"
#include "core/types.hpp"
#include "core/views.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <cstddef>

namespace varve {

/// Copies the inputs of a stage of staged blocks (formats/staged_blocks.hpp) for a tile of samples to the scratch of a
/// team of TeamSize threads:
///   inputs(i, s) = activation of the stage's input i for sample s of the tile
/// Task number t is stage t % num_stages of tile t / num_stages. Reads each input once per task.
template <class Edges, class Tile, int TeamSize>
struct StageInputs {
  using Scalar = typename Tile::Scalar;
  static constexpr int num_samples = Tile::num_samples;

  Edges const& layer;
  LayerPass<Scalar> const& pass;
  int count; ///< positions in use
  int rank;  ///< rank of the thread

  /// Copies the inputs of a task; all threads of the team call it. A thread always copies the same sample.
  KOKKOS_FORCEINLINE_FUNCTION void gather(int task, ArrayView<Scalar> const& inputs) const {
    constexpr int samples_at_a_time = TeamSize < num_samples ? TeamSize : num_samples;
    constexpr int step = TeamSize / samples_at_a_time;
    constexpr int at_a_time = 8;
    int const tile = task / layer.num_stages;
    auto const neurons = inputs_of(task % layer.num_stages);
    auto const num_inputs = static_cast<int>(neurons.size());
    for (int sample = rank % samples_at_a_time; sample < num_samples; sample += samples_at_a_time) {
      int const slot = pass.slot_of(tile * num_samples + sample, count);
      auto const source =
          sample_of_slot(pass.previous, slot, layer.blocks.parameters.num_inputs, pass.previous_tile_samples);
      for (int input = rank / samples_at_a_time; input < num_inputs; input += at_a_time * step) {
        Scalar value[at_a_time]; // all loads precede the first store, which might alias them
        VARVE_UNROLL
        for (int k = 0; k < at_a_time; ++k) {
          if (input + k * step < num_inputs)
            value[k] = source(static_cast<std::size_t>(neurons(input + k * step)) *
                              static_cast<std::size_t>(pass.previous_tile_samples));
        }
        VARVE_UNROLL
        for (int k = 0; k < at_a_time; ++k) {
          if (input + k * step < num_inputs) inputs((input + k * step) * num_samples + sample) = value[k];
        }
      }
    }
  }

  /// The same by asynchronous copies (begin_scratch_copy()), as one group per thread: in pieces of 16 bytes if the
  /// samples of a piece are adjacent, else number by number.
  KOKKOS_FORCEINLINE_FUNCTION void begin_copies(int task, ArrayView<Scalar> const& inputs) const {
    constexpr int piece_samples = 16 / static_cast<int>(sizeof(Scalar)); // samples of a copy
    constexpr int pieces = num_samples / piece_samples;                  // pieces of a line
    constexpr int step = TeamSize / pieces;
    constexpr int at_a_time = 4;
    int const tile = task / layer.num_stages;
    auto const neurons = inputs_of(task % layer.num_stages);
    auto const num_inputs = static_cast<int>(neurons.size());
    int const piece = rank % pieces;
    Scalar const* source[piece_samples];
    int const first = pass.slot_of(tile * num_samples + piece * piece_samples, count);
    bool is_together = first % piece_samples == 0 && pass.previous_tile_samples % piece_samples == 0;
    VARVE_UNROLL
    for (int i = 0; i < piece_samples; ++i) {
      int const slot = pass.slot_of(tile * num_samples + piece * piece_samples + i, count);
      source[i] = address_of_slot(pass.previous, slot, layer.blocks.parameters.num_inputs, pass.previous_tile_samples);
      is_together = is_together && slot == first + i; // check each: past the end the last slot repeats
    }
    for (int input = rank / pieces; input < num_inputs; input += at_a_time * step) {
      std::size_t place[at_a_time]; // all loads precede the first copy, which might alias them
      VARVE_UNROLL
      for (int k = 0; k < at_a_time; ++k) {
        if (input + k * step < num_inputs)
          place[k] = static_cast<std::size_t>(neurons(input + k * step)) *
                     static_cast<std::size_t>(pass.previous_tile_samples);
      }
      VARVE_UNROLL
      for (int k = 0; k < at_a_time; ++k) {
        if (input + k * step >= num_inputs) continue;
        auto& target = piece_of<Pack<Scalar, piece_samples>>(inputs, (input + k * step) * pieces + piece);
        if (is_together) {
          begin_scratch_copy(&target, reinterpret_cast<Pack<Scalar, piece_samples> const*>(source[0] + place[k]), true);
        } else {
          VARVE_UNROLL
          for (int i = 0; i < piece_samples; ++i) begin_scratch_copy(&target.lane[i], source[i] + place[k], true);
        }
      }
    }
    end_scratch_copies();
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<NeuronIndex const> inputs_of(int stage) const {
    auto const first = layer.input_pointers(stage);
    return part_of(layer.inputs, first, layer.input_pointers(stage + 1) - first);
  }
};

/// One layer of all live samples with staged inputs: a team copies the distinct inputs of a stage (a group of outputs
/// that share many inputs) into scratch once and computes all outputs of the stage from there. After Hidayetoglu et al.
/// 2020. For layers too wide for the fused kernel whose outputs share some, but not all, of their inputs.
///   next(j, p) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, slot_of(p)), + bias(j))
/// league: tiles x stages, stages innermost, so that concurrent teams read the same tiles; team threads: lanes of the
/// tile x blocks of the stage. Samples are read through the list of live samples and written compacted. Per edge a lane
/// loads its samples from scratch, an index and a weight; each input is read from the L2 once per stage. Bound by L1
/// and scratch on a GPU (80 %, perf/PROFILES.md).
/// CopiesAhead: the inputs of the next stage are copied to a second buffer while one is computed.
template <class ExecutionSpace, class Format, class Tile, bool CopiesAhead>
struct StagedForward {
  using Scalar = typename Tile::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = typename Tune::StagedPolicy;
  using Member = typename Policy::member_type;
  static constexpr int team_size = Tune::staged_team_size;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int lanes_at_a_time = team_size < kNumLaneIds<Tile> ? team_size : kNumLaneIds<Tile>;
  static constexpr int num_buffers = CopiesAhead ? 2 : 1;

  typename Format::Edges layer;
  LayerPass<Scalar> pass;

  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int max_inputs) {
    return static_cast<std::size_t>(num_buffers * max_inputs) * num_samples * sizeof(Scalar);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const buffer_size = static_cast<std::size_t>(layer.max_inputs) * num_samples;
    auto const buffers = ScratchArrays(team, Tune::staged_level, scratch_bytes(layer.max_inputs), 64)
                             .template take<Scalar>(num_buffers * buffer_size);
    int const count = pass.num_samples(0);
    int const num_tasks = num_tiles(count, num_samples) * layer.num_stages;
    StageInputs<typename Format::Edges, Tile, team_size> const stage_inputs{layer, pass, count, team.team_rank()};
    int task = team.league_rank();
    if constexpr (CopiesAhead) {
      if (task < num_tasks) stage_inputs.begin_copies(task, part_of(buffers, 0, buffer_size));
      for (std::size_t buffer = 0; task < num_tasks; buffer = buffer_size - buffer) {
        await_scratch_copies<0>();
        team.team_barrier(); // all threads see the inputs and have finished with the other buffer
        int const next = task + team.league_size();
        if (next < num_tasks) stage_inputs.begin_copies(next, part_of(buffers, buffer_size - buffer, buffer_size));
        forward(team, task, part_of(buffers, buffer, buffer_size));
        task = next;
      }
    } else {
      for (; task < num_tasks; task += team.league_size()) {
        stage_inputs.gather(task, buffers);
        team.team_barrier();
        forward(team, task, buffers);
        team.team_barrier();
      }
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void forward(Member const& team, int task, ArrayView<Scalar const> const& inputs) const {
    int const tile = task / layer.num_stages;
    int const stage = task % layer.num_stages;
    constexpr int blocks_at_a_time = team_size < Tile::num_lanes ? 1 : team_size / Tile::num_lanes;
    auto const& parameters = layer.blocks.parameters;
    int const end = layer.block_pointers(stage + 1);
    int const last = end < layer.blocks.num_blocks() ? end : layer.blocks.num_blocks();
    auto const outputs = tile_of(pass.next, tile, parameters.num_outputs, num_samples);
    int const lane = team.team_rank() % lanes_at_a_time;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    forward_blocks<typename Format::Blocks, Tile>(
        layer.blocks, {layer.block_pointers(stage) + team.team_rank() / Tile::num_lanes, last, +blocks_at_a_time},
        inputs, outputs, lane, seen);
    stamp_live<Tile>(seen, pass.live_stamps, tile, lane, pass.stamp);
  }
};

/// Launches StagedForward for `tiles` tiles. Does not fence.
template <class Kernel, class ExecutionSpace>
void launch_staged(ExecutionSpace const& space, Kernel const& kernel, int tiles) {
  using Tune = typename Kernel::Tune;
  auto const& layer = kernel.layer;
  int const teams = Tune::staged_league_size(num_processors(space), tiles, layer.num_stages);
  launch_teams("varve::staged_forward", typename Kernel::Policy(space, teams, +Kernel::team_size), kernel,
               Tune::staged_level, Kernel::scratch_bytes(layer.max_inputs) + 128);
}

/// Launches StagedForward for one layer. It copies ahead on NVIDIA GPUs with asynchronous copies, if a multiprocessor
/// has twice the scratch of all its teams. Samples may be in tiles of any size. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void staged_forward(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  auto const edges = layer.edges();
  int const tiles = num_tiles(pass.max_samples, Tile::num_samples);
  if (tiles == 0 || edges.num_stages == 0) return;
  if constexpr (kHasScratchCopies && kHasLargeScratch && !kOnHost<ExecutionSpace>) {
    using Kernel = StagedForward<ExecutionSpace, Format, Tile, true>;
    std::size_t const most = max_team_scratch<ExecutionSpace>() / Kernel::Tune::staged_teams;
    if (Kernel::scratch_bytes(edges.max_inputs) + Kernel::Tune::staged_reserve <= most)
      return launch_staged(space, Kernel{edges, pass}, tiles);
  }
  launch_staged(space, StagedForward<ExecutionSpace, Format, Tile, false>{edges, pass}, tiles);
}

} // namespace varve
