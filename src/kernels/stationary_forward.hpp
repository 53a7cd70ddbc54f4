#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// One layer of all live samples with stationary weights: a team keeps the edges of a group of blocks in scratch while
/// the tiles pass by. For layers too wide for the fused kernel, of any pattern whose blocks have equally many chunks.
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j))
/// league: groups of blocks x parts of the tiles, parts outermost, so that the teams that run together read the same
/// tiles; team threads: the blocks of the group, one each; vector lanes: packs of the tile's samples. Per block, edge
/// and tile it reads one line of activations through L1 and L2, four lines in flight per thread, and each weight once
/// per part: bound by the latency and bandwidth of the L2, then of memory (each activation once per launch).
template <class ExecutionSpace, class Format, class Tile>
struct StationaryForward {
  using Scalar = typename Tile::Scalar;
  using Index = typename Format::Index;
  using Edges = typename Format::Edges;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::StationaryBounds>;
  using Member = typename Policy::member_type;
  static constexpr int slices_per_group =
      Tune::team_size > Format::slice_width ? Tune::team_size / Format::slice_width : 1;
  static constexpr int blocks_per_group = slices_per_group * Format::slice_width;

  Edges layer;
  Scalar const* previous; ///< tiles of num_inputs neurons
  Scalar* next;           ///< tiles of num_outputs neurons
  int const* num_slots;   ///< samples held, on the device
  int* live_stamps;       ///< one per slot
  int stamp;

  /// Indices and weights of a group, in elements.
  KOKKOS_FORCEINLINE_FUNCTION static int indices_of_group(int chunks_per_slice) {
    return slices_per_group * chunks_per_slice * Format::slice_width * Format::chunk_size;
  }
  static std::size_t scratch_bytes(int chunks_per_slice) {
    auto const elements = static_cast<std::size_t>(indices_of_group(chunks_per_slice));
    return elements * (sizeof(Index) + Format::block_outputs * sizeof(Scalar));
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_groups = (layer.num_blocks() + blocks_per_group - 1) / blocks_per_group;
    int const num_parts = team.league_size() / num_groups;
    int const group = team.league_rank() % num_groups;
    int const tiles = num_tiles(*num_slots, Tile::num_samples);
    if (team.league_rank() / num_groups >= tiles) return;
    Edges const staged = stage(team, group);
    int const block_in_group = team.team_rank();
    int const block = group * blocks_per_group + block_in_group;
    if (block >= layer.num_blocks()) return;
    for (int tile = team.league_rank() / num_groups; tile < tiles; tile += num_parts) {
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes),
                           [&](int lane) { forward_lane(staged, tile, block, block_in_group, lane); });
    }
  }

  /// Brings the group's edges into scratch; there, its blocks count from 0.
  KOKKOS_FORCEINLINE_FUNCTION Edges stage(Member const& team, int group) const {
    struct alignas(16) Piece {
      std::uint32_t words[4];
    };
    int const count = indices_of_group(layer.chunks_per_slice);
    auto* const weights = static_cast<Scalar*>(team.team_scratch(0).get_shmem_aligned(
        static_cast<std::ptrdiff_t>(count) * Format::block_outputs * static_cast<std::ptrdiff_t>(sizeof(Scalar)), 16));
    auto* const indices = static_cast<Index*>(team.team_scratch(0).get_shmem_aligned(
        static_cast<std::ptrdiff_t>(count) * static_cast<std::ptrdiff_t>(sizeof(Index)), 16));
    std::size_t const first = static_cast<std::size_t>(group) * static_cast<std::size_t>(count);
    int const last_slice =
        (layer.num_blocks() + Format::slice_width - 1) / Format::slice_width; // the last group may be short
    int const slices = last_slice - group * slices_per_group < slices_per_group ? last_slice - group * slices_per_group
                                                                                : slices_per_group;
    int const held = count / slices_per_group * slices;
    auto const copy_pieces = [&](void* target, void const* source, std::size_t bytes) {
      Kokkos::parallel_for(Kokkos::TeamVectorRange(team, static_cast<int>(bytes / sizeof(Piece))),
                           [&](int i) { static_cast<Piece*>(target)[i] = static_cast<Piece const*>(source)[i]; });
    };
    copy_pieces(weights, layer.weights + first * Format::block_outputs,
                static_cast<std::size_t>(held) * Format::block_outputs * sizeof(Scalar));
    copy_pieces(indices, layer.indices + first, static_cast<std::size_t>(held) * sizeof(Index));
    team.team_barrier();
    Edges staged = layer;
    staged.weights = weights;
    staged.indices = indices;
    return staged;
  }

  KOKKOS_FORCEINLINE_FUNCTION void forward_lane(Edges const& staged, int tile, int block, int block_in_group,
                                                int lane) const {
    auto const& parameters = layer.parameters;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    BlockSums<Tile, Format::block_outputs> sums;
    sums.accumulate(staged, block_in_group,
                    previous + place_of_slot(tile * Tile::num_samples, parameters.num_inputs, Tile::num_samples), lane);
    sums.finish_block(parameters, block, seen);
    sums.store(parameters, block,
               next + place_of_slot(tile * Tile::num_samples, parameters.num_outputs, Tile::num_samples), lane);
    stamp_live<Tile>(seen, live_stamps + tile * Tile::num_samples, lane, stamp);
  }
};

/// True if the layer's edges can be staged in groups.
template <class Tile, class ExecutionSpace, class Format>
bool can_be_stationary(Format const& layer) {
  using Kernel = StationaryForward<ExecutionSpace, Format, Tile>;
  return Kernel::Tune::has_stationary_kernel && layer.chunks_per_slice > 0 &&
         Kernel::scratch_bytes(layer.chunks_per_slice) <= Kernel::Tune::max_stationary_bytes;
}

/// Launches StationaryForward for at most `max_slots` samples. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void stationary_forward(ExecutionSpace const& space, Format const& layer, typename Tile::Scalar const* previous,
                        typename Tile::Scalar* next, int const* num_slots, int max_slots, int* live_stamps, int stamp) {
  using Kernel = StationaryForward<ExecutionSpace, Format, Tile>;
  auto const edges = layer.edges();
  int const tiles = num_tiles(max_slots, Tile::num_samples);
  if (tiles == 0 || edges.num_blocks() == 0) return;
  int const num_groups = (edges.num_blocks() + Kernel::blocks_per_group - 1) / Kernel::blocks_per_group;
  int const num_parts = std::clamp(Kernel::Tune::stationary_teams(space) / num_groups, 1, tiles);
  typename Kernel::Policy policy(space, num_groups * num_parts, Kernel::blocks_per_group, Tile::num_lanes);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes(layer.chunks_per_slice)) + 32));
  Kokkos::parallel_for("varve::stationary_forward", policy,
                       Kernel{edges, previous, next, num_slots, live_stamps, stamp});
}

} // namespace varve
