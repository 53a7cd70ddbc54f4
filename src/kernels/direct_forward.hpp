#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// One layer of all live samples, for any sparsity pattern and any width, without scratch:
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j))
/// A task is one tile and some blocks of outputs. league: tasks, in strides; team threads: blocks; vector lanes: packs
/// of the tile's samples. Stamps the slots that hold a nonzero activation with pass.stamp. The layer may be a strip of
/// a layer.
/// Per block, edge and tile it reads one line of activations (128 bytes of float on a GPU, 256 on a CPU) for one fma
/// per sample and output of the block. Bound by the bandwidth of the cache that holds the tile: L2 on a CPU, L1 or L2
/// on a GPU.
template <class ExecutionSpace, class Format, class Tile>
struct DirectForward {
  using Scalar = typename Tile::Scalar;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;

  typename Format::Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of Tile::num_samples
  int blocks_per_task;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_blocks = layer.num_blocks();
    int const tasks_per_tile = (num_blocks + blocks_per_task - 1) / blocks_per_task;
    int const num_tasks = num_tiles(pass.num_samples(0), Tile::num_samples) * tasks_per_tile;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const tile = task / tasks_per_tile;
      int const first = task % tasks_per_tile * blocks_per_task;
      int const last = first + blocks_per_task < num_blocks ? first + blocks_per_task : num_blocks;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes),
                           [&](int lane) { forward_lane(team, tile, first, last, lane); });
    }
  }

  /// Computes this thread's share of the blocks [first, last) for the samples of one lane.
  KOKKOS_FORCEINLINE_FUNCTION void forward_lane(Member const& team, int tile, int first, int last, int lane) const {
    auto const& parameters = layer.parameters;
    auto const inputs = tile_of(pass.previous, tile, parameters.num_inputs, Tile::num_samples);
    auto const outputs = pass.outputs_of(tile, parameters.num_outputs, Tile::num_samples);
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    forward_blocks<Format, Tile>(layer, {first + team.team_rank(), last, team.team_size()}, inputs, outputs, lane,
                                 seen);
    stamp_live<Tile>(seen, pass.live_stamps, tile, lane, pass.stamp);
  }
};

/// Launches DirectForward. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void direct_forward(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  using Kernel = DirectForward<ExecutionSpace, Format, Tile>;
  auto const edges = layer.edges();
  int const tiles = num_tiles(pass.max_samples, Tile::num_samples);
  int const num_blocks = edges.num_blocks();
  if (tiles == 0 || num_blocks == 0) return;
  int const team_size = Tune::direct_threads / Tile::num_lanes;
  int const blocks_per_task = Tune::blocks_per_task(num_processors(space), tiles, num_blocks, team_size);
  int const num_tasks = tiles * ((num_blocks + blocks_per_task - 1) / blocks_per_task);
  typename Kernel::Policy const policy(space, Tune::league_size(num_processors(space), num_tasks), team_size,
                                       Tile::num_lanes);
  launch_teams("varve::direct_forward", policy, Kernel{edges, pass, blocks_per_task});
}

} // namespace varve
