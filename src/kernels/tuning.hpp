#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"

#include <algorithm>

namespace varve {

/// Constants that differ between backends, each with the measurement that chose it (perf/RESULTS.md).
/// Host: one thread per team, a lane is four 64-byte vectors of samples (64 float samples a tile: 55 of the 58 GE/s
/// that the L2 can feed, against 36 with one vector); a scalar lane over ThreadVectorRange is 20 times slower.
template <class ExecutionSpace, class Scalar>
struct Tuning {
  static constexpr int pack_width = 64 / static_cast<int>(sizeof(Scalar));
  using Tile = TileShape<Scalar, pack_width, 4, 1>;
  using NarrowTile = TileShape<Scalar, pack_width, 1, 1>;
  using FusedTile = Tile;
  using NarrowFusedTile = NarrowTile;
  static constexpr bool has_narrow_tiles = true;

  static constexpr int slice_width = 1; ///< a thread works through one block at a time
  static constexpr int chunk_size = 1;
  static constexpr int block_outputs = 4; ///< of pattern blocks: 16 of 32 vector registers hold sums; 8 spill
  static constexpr int team_size = 1;     ///< larger teams wait for their slowest thread: 1.25 to 2 times slower
  static constexpr bool has_stationary_kernel = false; ///< weights come from the caches anyway
  static constexpr std::size_t max_stationary_bytes = 0;
  using StationaryBounds = Kokkos::LaunchBounds<>;
  static int stationary_teams(ExecutionSpace const& space) { return space.concurrency(); }
  static constexpr int move_team_size = 1;
  static constexpr int move_lanes = 1;
  static constexpr int max_fused_neurons =
      8192; ///< two tiles of 64 float samples fit an L2 of 1 MiB up to 2048, L3 beyond

  /// Teams to launch for this many tasks. Host teams are cheap (about 50 ns) and scheduled dynamically: one per task.
  static int league_size(ExecutionSpace const&, int num_tasks) { return num_tasks; }

  /// Blocks of a tile that one task computes: all, unless that leaves threads idle.
  static int blocks_per_task(ExecutionSpace const& space, int num_tiles, int num_blocks) {
    int const wanted_tasks = 4 * space.concurrency();
    int const parts = num_tiles >= wanted_tasks ? 1 : (wanted_tasks + num_tiles - 1) / std::max(1, num_tiles);
    return std::max(1, (num_blocks + parts - 1) / parts);
  }
};

/// The same for the fused kernel, by outputs per block.
template <class ExecutionSpace, class Scalar, int BlockOutputs>
struct FusedTuning {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  static constexpr bool in_place = false;
  static constexpr int num_tiles = 2;
  static constexpr int team_size = 1;
  static constexpr int passes = 1;
  static constexpr int scratch_level = 1;
  static int league_size(ExecutionSpace const&, int num_tiles) { return num_tiles; }
};

#if defined(KOKKOS_ENABLE_CUDA)
/// CUDA: a tile of the direct kernel is 32 samples (one 128-byte line per neuron in float); loads of 16 bytes, so 8
/// lanes per block in float and 4 blocks per warp, whose indices and weights are interleaved in slices.
template <class Scalar>
struct Tuning<Kokkos::Cuda, Scalar> {
  static constexpr int pack_width = 16 / static_cast<int>(sizeof(Scalar));
  using Tile = TileShape<Scalar, pack_width, 1, 32 / pack_width>;
  using FusedTile = TileShape<Scalar, pack_width, 1, 2>; ///< 8 samples of 1024 float neurons: 32 KB of scratch
  using NarrowTile = Tile;
  using NarrowFusedTile = FusedTile;
  static constexpr bool has_narrow_tiles = false; ///< nvcc takes minutes for each set of kernels

  static constexpr int slice_width = 16; ///< blocks per warp of the fused kernel
  static constexpr int chunk_size = 8;   ///< sixteen bytes of 16-bit indices
  static constexpr int block_outputs = 8;
  static constexpr int team_size = 256 / (32 / pack_width);
  /// Three teams of 256 threads (80 registers each) with 34 KB of weights leave 150 KB of L1 for the activations.
  static constexpr bool has_stationary_kernel = true;
  static constexpr std::size_t max_stationary_bytes = 48000; ///< Kokkos gives a team 48 KiB at most
  using StationaryBounds = Kokkos::LaunchBounds<256, 3>;
  static int stationary_teams(Kokkos::Cuda const& space) { return 3 * space.cuda_device_prop().multiProcessorCount; }
  static constexpr int move_team_size = 8;
  static constexpr int move_lanes = 32;
  static constexpr int max_fused_neurons = 1024;

  /// Eight resident teams of 256 threads fill a multiprocessor; more only wait.
  static int league_size(Kokkos::Cuda const& space, int num_tasks) {
    return std::min(num_tasks, 8 * space.cuda_device_prop().multiProcessorCount);
  }

  static int blocks_per_task(Kokkos::Cuda const&, int, int num_blocks) { return std::min(num_blocks, 4 * team_size); }
};

/// CUDA: two teams per multiprocessor, each with a 32 KB tile; 16 sums in registers per thread for single outputs
/// (512 threads), 32 for blocks of 8 (256 threads). More teams than that make the tail slower, for they share what few
/// busy.
template <class Scalar, int BlockOutputs>
struct FusedTuning<Kokkos::Cuda, Scalar, BlockOutputs> {
  static constexpr bool in_place = true;
  static constexpr int num_tiles = 1;
  static constexpr int team_size = BlockOutputs == 1 ? 512 : 256;
  static constexpr int passes =
      2048 / (team_size * BlockOutputs); ///< x team_size / 2 lanes x BlockOutputs = 1024 outputs
  static constexpr int scratch_level = 0;
  using Policy = Kokkos::TeamPolicy<Kokkos::Cuda, Kokkos::LaunchBounds<team_size, 2>>;
  static int league_size(Kokkos::Cuda const& space, int num_tiles) {
    return std::min(num_tiles, 2 * space.cuda_device_prop().multiProcessorCount);
  }
};
#endif

} // namespace varve
