#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// One layer of all live samples with staged inputs: a team copies the distinct inputs of a stage (a group of outputs
/// that share many inputs) into scratch once and computes all outputs of the stage from there. After Hidayetoglu et al.
/// 2020. For layers too wide for the fused kernel whose outputs share inputs, but not whole lists of them.
///   next(j, p) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, slot_of(p)), + bias(j))
/// league: tiles x stages, stages innermost, so that the teams that run together read the same tiles; team threads:
/// lanes of the tile x blocks of the stage. Samples are read through the list of live samples and written packed. Per
/// edge a lane loads its samples from scratch, an index and a weight; each input is read from the L2 once per stage.
/// Bound by L1 and scratch on a GPU (80 %, perf/PROFILES.md).
template <class ExecutionSpace, class Format, class Tile>
struct StagedForward {
  using Scalar = typename Tile::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = typename Tune::StagedPolicy;
  using Member = typename Policy::member_type;
  using Sums = BlockSums<Tile, Format::block_outputs>;
  static constexpr int team_size = Tune::staged_team_size;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int samples_at_a_time = team_size < num_samples ? team_size : num_samples;
  static constexpr int lanes_at_a_time = team_size < kNumLaneIds<Tile> ? team_size : kNumLaneIds<Tile>;
  static constexpr int in_flight = 8;

  typename Format::Edges layer;
  LayerPass<Scalar> pass;

  /// Team scratch in bytes.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int max_inputs) {
    return static_cast<std::size_t>(max_inputs) * num_samples * sizeof(Scalar);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const inputs = ScratchArrays(team, Tune::staged_level, scratch_bytes(layer.max_inputs), 64)
                            .template take<Scalar>(static_cast<std::size_t>(layer.max_inputs) * num_samples);
    int const count = pass.num_samples(0);
    int const num_tasks = num_tiles(count, num_samples) * layer.num_stages;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const tile = task / layer.num_stages;
      int const stage = task % layer.num_stages;
      gather(team, stage, tile, count, inputs);
      team.team_barrier();
      forward(team, stage, tile, inputs);
      team.team_barrier();
    }
  }

private:
  /// inputs(i, s) = activation of the stage's input i for sample s of the tile. A thread stays with its sample.
  KOKKOS_FORCEINLINE_FUNCTION void gather(Member const& team, int stage, int tile, int count,
                                          ArrayView<Scalar> const& inputs) const {
    constexpr int step = team_size / samples_at_a_time;
    auto const first = layer.input_pointers(stage);
    auto const num_inputs = static_cast<int>(layer.input_pointers(stage + 1) - first);
    auto const neurons = part_of(layer.inputs, first, static_cast<std::size_t>(num_inputs));
    for (int sample = team.team_rank() % samples_at_a_time; sample < num_samples; sample += samples_at_a_time) {
      int const slot = pass.slot_of(tile * num_samples + sample, count);
      auto const source =
          sample_of_slot(pass.previous, slot, layer.blocks.parameters.num_inputs, pass.previous_tile_samples);
      for (int input = team.team_rank() / samples_at_a_time; input < num_inputs; input += in_flight * step) {
        Scalar value[in_flight]; // all loads come before the first store, which might alias them
        VARVE_UNROLL
        for (int k = 0; k < in_flight; ++k) {
          if (input + k * step < num_inputs)
            value[k] = source(static_cast<std::size_t>(neurons(input + k * step)) *
                              static_cast<std::size_t>(pass.previous_tile_samples));
        }
        VARVE_UNROLL
        for (int k = 0; k < in_flight; ++k) {
          if (input + k * step < num_inputs) inputs((input + k * step) * num_samples + sample) = value[k];
        }
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void forward(Member const& team, int stage, int tile,
                                           ArrayView<Scalar const> const& inputs) const {
    constexpr int blocks_at_a_time = team_size < Tile::num_lanes ? 1 : team_size / Tile::num_lanes;
    auto const& parameters = layer.blocks.parameters;
    int const end = layer.block_pointers(stage + 1);
    int const last = end < layer.blocks.num_blocks() ? end : layer.blocks.num_blocks();
    auto const outputs = tile_of(pass.next, tile, parameters.num_outputs, num_samples);
    int const lane = team.team_rank() % lanes_at_a_time;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    for (int block = layer.block_pointers(stage) + team.team_rank() / Tile::num_lanes; block < last;
         block += blocks_at_a_time) {
      Sums sums;
      sums.accumulate(layer.blocks, block, inputs, lane);
      sums.finish_block(parameters, block, seen);
      sums.store(parameters, block, outputs, lane);
    }
    stamp_live<Tile>(seen, pass.live_stamps, tile, lane, pass.stamp);
  }
};

/// Launches StagedForward. Samples may lie in tiles of any size. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void staged_forward(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  using Kernel = StagedForward<ExecutionSpace, Format, Tile>;
  using Tune = typename Kernel::Tune;
  auto const edges = layer.edges();
  int const tiles = num_tiles(pass.max_samples, Tile::num_samples);
  if (tiles == 0 || edges.num_stages == 0) return;
  typename Kernel::Policy policy(space, Tune::staged_league_size(num_processors(space), tiles, edges.num_stages),
                                 +Kernel::team_size);
  policy.set_scratch_size(Tune::staged_level,
                          Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes(edges.max_inputs)) + 128));
  launch_teams("varve::staged_forward", policy, Kernel{edges, pass});
}

} // namespace varve
