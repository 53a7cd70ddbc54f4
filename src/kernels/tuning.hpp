#pragma once

#include "core/execution.hpp"
#include "kernels/packing_costs.hpp"
#include "kernels/tile.hpp"

#include <algorithm>
#include <cstddef>

namespace varve {

/// Constants that differ between backends, each with the measurement that chose it (perf/RESULTS.md).
/// Host: one thread per team, a lane is four 64-byte vectors of samples (64 float samples a tile: 55 of the 58 GE/s
/// that the L2 can feed, against 36 with one vector); a scalar lane over ThreadVectorRange is 20 times slower.
template <class ExecutionSpace, class Scalar>
struct Tuning {
  static constexpr int pack_width = 64 / static_cast<int>(sizeof(Scalar));
  using Tile = TileShape<Scalar, pack_width, 4, 1>;
  using NarrowTile = TileShape<Scalar, pack_width, 1, 1>;
  static constexpr bool has_narrow_tiles = true;

  static constexpr int slice_width = 1; ///< a thread works through one block at a time
  static constexpr int chunk_size = 1;
  static constexpr int block_outputs = 4; ///< of pattern blocks: 16 of 32 vector registers hold sums; 8 spill
  /// Layers too wide for the fused kernel: as many sums of one vector each, so that a tile of 16384 neurons fits the
  /// L2.
  static constexpr int wide_block_outputs = 16;

  static constexpr double most_stored_in_fused_blocks =
      2.0; ///< weights per edge: a block of 4 is 1.5 to 2 times as fast
  static constexpr bool has_fused_widths = false;
  static constexpr std::size_t max_image_bytes = 0;
  static constexpr std::size_t stationary_layers_before_fused = 0;

  using WideBlockTile = NarrowTile; ///< of the direct kernel with pattern blocks
  using NarrowWideBlockTile = NarrowTile;
  static constexpr int direct_threads = 1; ///< larger teams wait for their slowest thread: 1.25 to 2 times slower

  using StationaryTile = TileShape<Scalar, 2, 1, 32>; ///< lanes of two samples: slow here, and as exact
  using ListedStationaryTile = TileShape<Scalar, 1, 2, 32>;
  static constexpr bool prefers_stationary = false; ///< weights come from the caches anyway
  using StationaryBounds = Kokkos::LaunchBounds<>;
  static constexpr int stationary_blocks = 8;
  static constexpr int stationary_team_size = 1;
  static constexpr int stationary_level = 1;
  static constexpr std::size_t max_stationary_bytes = std::size_t(1) << 20U;
  static int stationary_teams(ExecutionSpace const& space) { return space.concurrency(); }

  using StagedTile = Tile;
  using NarrowStagedTile = NarrowTile;
  using StagedPolicy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  static constexpr int staged_slice_width = 1;
  static constexpr int staged_team_size = 1;
  static constexpr int staged_level = 1;
  static constexpr std::size_t max_staged_inputs = 1024; ///< 256 KiB of 64 float samples: in the L2
  static constexpr std::size_t max_staged_outputs = 1024;
  static constexpr double min_staged_uses = 3.0;
  static int staged_league_size(ExecutionSpace const&, int num_tiles, int num_stages) { return num_tiles * num_stages; }

  static constexpr int expand_level = 1;
  static constexpr int expand_bytes = 32768;
  static constexpr int expand_team_size = 1;

  using BinaryTile = Tile;
  static constexpr bool binary_gathers_lines = false;
  static int binary_team_size(int /*num_outputs*/) { return 1; }

  /// With fewer samples than this, layers are spread: tiles of 64 for half of the threads leave the others idle.
  static std::size_t few_samples(ExecutionSpace const& space) {
    return static_cast<std::size_t>(space.concurrency()) / 2 * Tile::num_samples;
  }
  static constexpr bool prefers_spread = false; ///< the direct kernel finds tiles in the caches
  using SpreadTile = Tile;
  using NarrowSpreadTile = NarrowTile;
  using SpreadBounds = Kokkos::LaunchBounds<>;
  static constexpr int spread_team_size = 1;
  static constexpr int spread_chunks_ahead = 1;
  static constexpr int spread_level = 1;
  static constexpr std::size_t max_spread_bytes = std::size_t(1) << 20U;
  static int spread_teams(ExecutionSpace const& space) { return space.concurrency(); }

  static constexpr int log2_counted_samples = 6; ///< whose counts a team keeps
  static constexpr int max_counted_bytes = 1 << 20;
  static constexpr std::size_t max_counted_outputs = 8192;

  using ConeTile = Tile;
  using NarrowConeTile = NarrowTile;
  using ConeBounds = Kokkos::LaunchBounds<>;
  static constexpr std::size_t cone_slots = 80; ///< 20 KB, in the L1
  static constexpr int cone_group_size = 1;     ///< processors look ahead by themselves
  static constexpr int cone_team_size = 1;
  static constexpr int cone_level = 1;
  static constexpr std::size_t max_cone_bytes = std::size_t(1) << 20U;
  static constexpr double cone_other_cost = 3.0; ///< of what else there is, see place_cone_runs
  static int cone_teams(ExecutionSpace const& space) { return 8 * space.concurrency(); }

  static constexpr int move_team_size = 1;
  static constexpr int move_lanes = 1;

  /// Teams to launch for this many tasks. Host teams are cheap (about 50 ns) and scheduled dynamically: one per task.
  static int league_size(ExecutionSpace const&, int num_tasks) { return num_tasks; }

  /// Blocks of a tile that one task computes: all, unless that leaves threads idle.
  static int blocks_per_task(ExecutionSpace const& space, int num_tiles, int num_blocks, int /*team_size*/) {
    int const wanted_tasks = 4 * space.concurrency();
    int const parts = num_tiles >= wanted_tasks ? 1 : (wanted_tasks + num_tiles - 1) / std::max(1, num_tiles);
    return std::max(1, (num_blocks + parts - 1) / parts);
  }
};

/// Layers that the fused kernel takes, by their width, on backends where that makes a difference: the narrower they
/// are, the more samples a tile holds, so that all threads of a team have work. (Narrow: with images, see LayerImages.)
enum class FusedWidth { wide, medium, narrow };

/// The same for the fused kernel, by outputs per block, for layers of at most max_neurons.
template <class ExecutionSpace, class Scalar, int BlockOutputs, FusedWidth Width>
struct FusedTuning {
  using Tile = typename Tuning<ExecutionSpace, Scalar>::Tile;
  using NarrowTile = typename Tuning<ExecutionSpace, Scalar>::NarrowTile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  static constexpr int max_neurons = 8192; ///< two tiles of 64 float samples fit an L2 of 1 MiB up to 2048, L3 beyond
  static constexpr bool in_place = false;
  static constexpr bool prefetches = false;
  static constexpr int num_tiles = 2;
  static constexpr int team_size = 1;
  static constexpr int passes = 1;
  static constexpr int scratch_level = 1;
  static int league_size(ExecutionSpace const&, int num_tiles) { return num_tiles; }

  /// Of each of two Ice Lake cores: 21e9 weights a second; a value is moved in the time of 40 weights.
  static PackingCosts packing_costs(ExecutionSpace const& space) {
    auto const threads = static_cast<double>(space.concurrency());
    return {.launch = 1e-5,
            .weight = 5e-11 / threads,
            .moved_value = 2e-9 / threads,
            .full = threads * static_cast<double>(Tile::num_samples)};
  }
};

#if defined(KOKKOS_ENABLE_CUDA)
/// CUDA: a tile of the direct kernel is 32 samples (one 128-byte line per neuron in float); loads of 16 bytes, so 8
/// lanes per block in float and 4 blocks per warp, whose indices and weights are interleaved in slices.
template <class Scalar>
struct Tuning<Kokkos::Cuda, Scalar> {
  static constexpr int pack_width = 16 / static_cast<int>(sizeof(Scalar));
  using Tile = TileShape<Scalar, pack_width, 1, 32 / pack_width>;
  using NarrowTile = Tile;
  static constexpr bool has_narrow_tiles = false; ///< nvcc takes minutes for each set of kernels

  static constexpr int slice_width = 16; ///< blocks per warp of the fused kernel
  static constexpr int chunk_size = 8;   ///< sixteen bytes of 16-bit indices
  static constexpr int block_outputs = 8;

  /// Weights per edge: blocks take in 14e12 weights a second, single outputs of a random pattern 2.5e12 edges.
  static constexpr double most_stored_in_fused_blocks = 4.0;
  static constexpr bool has_fused_widths = true;
  static constexpr std::size_t max_image_bytes = 28000; ///< beside a tile of 16 KB and 4 KB of Kokkos's own
  /// While samples leave in crowds, the stationary kernel is ahead even where tiles would fit: it packs for nothing.
  static constexpr std::size_t stationary_layers_before_fused = 9;

  /// A warp holds 16 outputs of 64 samples in 32 sums per thread, and reads each line of the L2 for 16 outputs.
  using WideBlockTile = TileShape<Scalar, 8 / static_cast<int>(sizeof(Scalar)), 1, 32>;
  using NarrowWideBlockTile = WideBlockTile;
  static constexpr int wide_block_outputs = 16;
  static constexpr int direct_threads = 256;

  /// Two teams of 256 threads (128 registers each: none spill, and 32 loads are on their way) with 17 KB of weights (32
  /// inputs) leave 190 KB of L1.
  using StationaryTile = WideBlockTile;
  /// Through a list, a lane's samples lie 32 positions apart, so that the lanes of a load meet in one line.
  using ListedStationaryTile = TileShape<Scalar, 1, 8 / static_cast<int>(sizeof(Scalar)), 32>;
  static constexpr bool prefers_stationary = true;
  using StationaryBounds = Kokkos::LaunchBounds<256, 2>;
  static constexpr int stationary_blocks = 8;
  static constexpr int stationary_team_size = 8;
  static constexpr int stationary_level = 0;
  static constexpr std::size_t max_stationary_bytes = 48000; ///< Kokkos gives a team 48 KiB at most
  static int stationary_teams(Kokkos::Cuda const& space) { return 2 * num_multiprocessors(space); }

  /// A thread holds 8 float samples of an output, so an index and a weight serve two loads of 16 bytes.
  using StagedTile = RotatedTileShape<Scalar, pack_width, 4>;
  using NarrowStagedTile = StagedTile;
  using StagedPolicy = Kokkos::TeamPolicy<Kokkos::Cuda, Kokkos::LaunchBounds<256, 4>>;
  static constexpr int staged_slice_width = 8;
  static constexpr int staged_team_size = 256;
  static constexpr int staged_level = 0;
  static constexpr std::size_t max_staged_inputs = 288; ///< 36 KiB
  static constexpr std::size_t max_staged_outputs = 128;
  static constexpr double min_staged_uses = 3.0;
  static int staged_league_size(Kokkos::Cuda const& space, int num_tiles, int num_stages) {
    return std::min(num_tiles * num_stages, 4 * num_multiprocessors(space));
  }

  static constexpr int expand_level = 0;
  static constexpr int expand_bytes = 16384; ///< eight teams of 256 threads per multiprocessor
  static constexpr int expand_team_size = 256;

  /// A thread holds 32 samples of its output, one for each bit of a word.
  using BinaryTile = TileShape<Scalar, pack_width, 32 / pack_width, 1>;
  static constexpr bool binary_gathers_lines = true; ///< else each store of a warp goes to 32 lines: 1.0 ms, not 0.2
  static int binary_team_size(int num_outputs) {     // whose lines take 34 KB of team scratch at most
    return std::min(1024 / static_cast<int>(sizeof(Scalar)), (num_outputs + 31) / 32 * 32);
  }

  /// With fewer samples than this, layers are spread: a tile of 8 keeps 1/264 of the fused kernel's teams at work.
  static std::size_t few_samples(Kokkos::Cuda const&) { return 256; }
  static constexpr bool prefers_spread = true;
  using SpreadTile = TileShape<Scalar, pack_width, 1, 2>;
  using NarrowSpreadTile = SpreadTile;
  using SpreadBounds = Kokkos::LaunchBounds<64, 4>;
  static constexpr int spread_team_size = 64;
  static constexpr int spread_chunks_ahead = 8; ///< 96 registers of edges on their way
  static constexpr int spread_level = 0;
  static constexpr std::size_t max_spread_bytes = 40960;
  static int spread_teams(Kokkos::Cuda const& space) { return 2 * num_multiprocessors(space); }

  static constexpr int log2_counted_samples = 5; ///< whose counts a team keeps, or fewer where outputs are many
  static constexpr int max_counted_bytes = 36000;
  static constexpr std::size_t max_counted_outputs = 4096;

  /// A warp has 64 float samples of up to 80 neurons in 20 KB; four steps at a time hide what scratch takes to answer.
  using ConeTile = TileShape<Scalar, 8 / static_cast<int>(sizeof(Scalar)), 1, 32>;
  using NarrowConeTile = ConeTile;
  using ConeBounds = Kokkos::LaunchBounds<64, 5>;
  static constexpr std::size_t cone_slots = 80;
  static constexpr int cone_group_size = 4;
  static constexpr int cone_team_size = 2;
  static constexpr int cone_level = 0;
  static constexpr std::size_t max_cone_bytes = 46000;
  static constexpr double cone_other_cost = 3.0; ///< the fused kernel, whose chunks of 8 edges are mostly padding here
  static int cone_teams(Kokkos::Cuda const& space) { return 5 * num_multiprocessors(space); }

  static constexpr int move_team_size = 8;
  static constexpr int move_lanes = 32;

  static int num_multiprocessors(Kokkos::Cuda const& space) { return space.cuda_device_prop().multiProcessorCount; }

  /// Eight resident teams of 256 threads fill a multiprocessor; more only wait.
  static int league_size(Kokkos::Cuda const& space, int num_tasks) {
    return std::min(num_tasks, 8 * num_multiprocessors(space));
  }

  static int blocks_per_task(Kokkos::Cuda const&, int, int num_blocks, int team_size) {
    return std::min(num_blocks, 4 * team_size);
  }
};

/// CUDA: two teams per multiprocessor, each with a tile of 8 float samples of 1024 neurons (32 KB) and two lanes of 4:
/// 16 sums in registers per thread for single outputs (512 threads), 32 for blocks of 8 (256 threads). More teams than
/// that make the tail slower, for they share what few busy multiprocessors there are. Layers of 256 neurons or less:
/// tiles of 32 samples, which also meet no bank conflicts; of 128 or less: the image of a layer beside the tile.
template <class Scalar, int BlockOutputs, FusedWidth Width>
struct FusedTuning<Kokkos::Cuda, Scalar, BlockOutputs, Width> {
  static constexpr bool is_wide = Width == FusedWidth::wide;
  static constexpr bool is_narrow = Width == FusedWidth::narrow;
  using Tile = TileShape<Scalar, 16 / static_cast<int>(sizeof(Scalar)), 1, is_wide ? 2 : 8>;
  using NarrowTile = Tile;
  static constexpr int max_neurons = is_wide ? 1024 : is_narrow ? 128 : 256;
  static constexpr bool in_place = true;
  static constexpr bool prefetches = is_narrow;
  static constexpr int num_tiles = 1;
  static constexpr int team_size = BlockOutputs == 1 ? 512 : is_narrow ? 128 : 256;
  static constexpr int teams_per_multiprocessor = is_narrow && BlockOutputs > 1 ? 3 : 2;
  static constexpr int passes = max_neurons / (team_size / Tile::num_lanes * BlockOutputs);
  static_assert(passes > 0);
  static constexpr int scratch_level = 0;
  using Policy = Kokkos::TeamPolicy<Kokkos::Cuda, Kokkos::LaunchBounds<team_size, teams_per_multiprocessor>>;
  static int league_size(Kokkos::Cuda const& space, int num_tiles) {
    return std::min(num_tiles, teams_per_multiprocessor * space.cuda_device_prop().multiProcessorCount);
  }

  /// Of an H200: 14e12 weights a second in blocks, 2.5e12 of single outputs; 3e12 bytes are moved, each twice.
  static PackingCosts packing_costs(Kokkos::Cuda const& space) {
    int const teams = teams_per_multiprocessor * space.cuda_device_prop().multiProcessorCount;
    return {.launch = 5e-6,
            .weight = BlockOutputs == 1 ? 4e-13 : 7e-14,
            .moved_value = 2.0 * sizeof(Scalar) / 3e12,
            .full = static_cast<double>(teams * Tile::num_samples)};
  }
};
#endif

} // namespace varve
