#pragma once

#include "kernels/tuning/host.hpp"
#include "passes/edge_order.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace varve {

/// Shape of a team of DenseForward and of its ChunkPipeline.
template <int TeamOutputs, int ThreadOutputs, int ChunkInputs, int NumStages>
struct DenseTeam {
  static constexpr int team_outputs = TeamOutputs;     ///< outputs of a team
  static constexpr int thread_outputs = ThreadOutputs; ///< outputs of a thread
  static constexpr int chunk_inputs = ChunkInputs;     ///< inputs of a chunk
  static constexpr int num_stages = NumStages;         ///< chunks in scratch or in flight, with asynchronous copies
};

template <class ExecutionSpace, class Scalar>
struct CudaNarrowTuning;

/// CUDA: a tile of the direct kernel is 32 samples (one 128-byte line per neuron in float). Loads have 16 bytes, so a
/// block has 8 lanes in float and a warp 4 blocks, whose indices and weights are interleaved in slices. ExecutionSpace
/// is a parameter so that plans for such a device can be made and tested without it.
template <class ExecutionSpace, class Scalar>
struct CudaTuning {
  static constexpr int pack_width = 16 / static_cast<int>(sizeof(Scalar));
  using Tile = TileShape<Scalar, pack_width, 1, 32 / pack_width>;
  using FewTile = Tile; ///< no smaller tile, because few samples go to the split-output kernel

  static constexpr int slice_width = 16; ///< blocks that a warp of the fused kernel computes at a time
  static constexpr int chunk_size = 8;   ///< edges whose 16-bit indices are one 16-byte load
  static constexpr int block_outputs = 8;

  static constexpr PlanLimits limits = {
      .max_image_bytes = 28000, ///< 48 KiB less a tile of 16 KiB and 4 KB that Kokkos reserves
      /// The fused kernel computes 14e12 weights per second in blocks, and 3e12 edges per second of single outputs
      /// whose random edges ascend.
      .max_stored_in_fused_blocks = 4.0,
      /// While many samples die, the stationary kernel is faster even for layers that the fused kernel could compute,
      /// because it compacts in every layer at no cost.
      .stationary_layers_before_fused = 9,
      .max_stationary_bytes = 48000, ///< Kokkos gives a team 48 KiB at most
      .max_staged_inputs = 288,      ///< 36 KiB
      .max_staged_outputs = 128,
      .min_staged_uses = 3.0,
      .max_stored_in_dense = 5.0,     ///< from a density of 0.2 on
      .dense_per_block_weight = 1.25, ///< fused pattern blocks compute 14e12 weights per second
      .narrowest_dense = 65,
      /// Layers of merged networks, which have at most half as many, share launches of large tiles.
      .fewest_dense_edges = 64,
      .has_curves_in_rows_only = true,
      .prefers_spread = true,
      .max_spread_bytes = 40960,      ///< bytes of one tile
      .max_stored_in_few_dense = 4.0, ///< one sample gains with 512 inputs of which 154 have edges
      .max_counted_outputs = 4096,
      .cone_other_cost = 3.0, ///< see place_cone_runs(): there, chunks of 8 edges are mostly padding
  };

  static constexpr bool has_large_tiles = true;
  using NarrowFused = CudaNarrowTuning<ExecutionSpace, Scalar>;
  static constexpr bool has_wide_tiles = true; ///< if a team may have their scratch (core/large_scratch.hpp)

  /// A warp holds 16 outputs of 64 samples in 32 sums per thread, and reads each line from the L2 once for 16 outputs.
  using WideBlockTile = TileShape<Scalar, 8 / static_cast<int>(sizeof(Scalar)), 1, 32>;
  static constexpr int wide_block_outputs = 16;
  static constexpr int direct_threads = 256;

  /// Two teams of 256 threads (128 registers each: none spill, and 32 loads are in flight) with 17 KB of weights (32
  /// inputs) leave 190 KB of L1.
  using StationaryTile = WideBlockTile;
  /// With a list, a lane's samples are 32 positions apart, so that the lanes of a load access one line.
  using ListedStationaryTile = TileShape<Scalar, 1, 8 / static_cast<int>(sizeof(Scalar)), 32>;
  static constexpr bool has_stationary = true;
  using StationaryBounds = Kokkos::LaunchBounds<256, 2>;
  static constexpr int stationary_blocks = 8;
  static constexpr int stationary_team_size = 8;
  static constexpr int stationary_level = 0;
  static int stationary_teams(int processors) { return 2 * processors; }

  /// A thread holds 8 float samples of an output, so an index and a weight serve two loads of 16 bytes.
  using StagedTile = RotatedTileShape<Scalar, pack_width, 4>;
  static constexpr int staged_teams = 4;              ///< teams per multiprocessor
  static constexpr std::size_t staged_reserve = 4608; ///< bytes of each team's scratch that Kokkos and CUDA reserve
  using StagedPolicy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<256, staged_teams>>;
  static constexpr int staged_slice_width = 8;
  static constexpr int staged_team_size = 256;
  static constexpr int staged_level = 0;
  static int staged_league_size(int processors, int num_tiles, int num_stages) {
    return std::min(num_tiles * num_stages, staged_teams * processors);
  }

  /// Dense layers: a team computes 128 outputs of 64 samples. In float each of 128 threads holds 64 sums of 8 outputs
  /// and loads 64 bytes from scratch for 64 fma; four teams fill the registers: 20e12 fma per second on an H200. Small
  /// teams, for launches that would leave multiprocessors idle, compute half as many outputs, with 32 sums per thread.
  /// Their chunks are four times as long, because few warps hide the barrier of a chunk.
  using DenseTile = TileShape<Scalar, pack_width, 2, 32 / pack_width>;
  static constexpr int dense_outputs = 128;
  static constexpr int dense_chunk = 8;
  using LargeDense = DenseTeam<128, 8, 32 / static_cast<int>(sizeof(Scalar)), 3>;
  using SmallDense = DenseTeam<64, 4, 128 / static_cast<int>(sizeof(Scalar)), 2>;
  static int fewest_large_dense(int processors) { return processors; } ///< number of teams
  using DenseBounds = Kokkos::LaunchBounds<512 / pack_width, pack_width>;
  static constexpr bool has_dense_kernel = true;
  static int dense_teams(int processors) { return pack_width * processors; }
  /// With fewer teams, fused pattern blocks are faster: 300 samples of 300 neurons occupy only 14 teams.
  static int fewest_dense_tasks(int processors) { return processors / 16; }

  static constexpr int expand_level = 0;
  static constexpr int expand_bytes = 16384; ///< eight teams of 256 threads per multiprocessor
  static constexpr int expand_team_size = 256;

  /// A thread holds 32 samples of its output, one for each bit of a word.
  using BinaryTile = TileShape<Scalar, pack_width, 32 / pack_width, 1>;
  using BinaryPolicy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<1024 / sizeof(Scalar), 4>>;
  /// Without gathered lines, each store of a warp would access 32 lines: 1.0 ms instead of 0.2 ms.
  static constexpr bool binary_gathers_lines = true;
  static int binary_team_size(int num_outputs) { // the team's lines use at most 34 KB of scratch
    return std::min(1024 / static_cast<int>(sizeof(Scalar)), (num_outputs + 31) / 32 * 32);
  }

  /// With fewer samples than this, layers are spread: a tile of 8 would occupy 1/264 of the fused kernel's teams.
  static std::size_t few_samples(int /*processors*/) { return 256; }
  static constexpr bool has_small_batch_kernel = false; ///< the split-output kernel takes few samples
  static constexpr int few_outputs = 8;                 ///< outputs of a block of dense layers for one or two samples
  static constexpr int few_dense_chunk = 8;
  static constexpr int few_dense_piece = pack_width;
  using SpreadTile = TileShape<Scalar, pack_width, 1, 2>;
  static constexpr std::size_t max_single_spread_samples = 2; ///< lanes of a warp for each of 16 outputs
  /// A slice of 16 outputs of a tile occupies 32 threads; 256 threads copy its edges in stages of 12 KB in float. Three
  /// stages are in flight, if there is room: in a latency of 1300 cycles the fastest chains consume 24 KB.
  using SpreadBounds = Kokkos::LaunchBounds<256, 1>;
  static constexpr int spread_team_size = 256;
  static constexpr int spread_stage_chunks = 16;
  static constexpr int spread_stages = kHasLargeScratch ? 4 : 2;
  static constexpr int spread_level = 0;
  static int spread_teams(int processors) { return processors; }

  static constexpr int log2_counted_samples = 5; ///< a team counts for 2^5 samples, or fewer that fit max_counted_bytes
  static constexpr std::size_t max_counted_bytes = 36000;

  static constexpr int entry_team_size = 32; ///< a barrier of one warp costs little, and each entry needs one
  static constexpr int entry_samples = 1;

  /// A warp has 64 float samples of up to 80 neurons in 20 KB; four steps at a time hide the latency of scratch.
  using ConeTile = TileShape<Scalar, 8 / static_cast<int>(sizeof(Scalar)), 1, 32>;
  using ConeBounds = Kokkos::LaunchBounds<64, 5>;
  static constexpr std::size_t cone_slots = 80;
  static constexpr int cone_group_size = 4;
  static constexpr int cone_team_size = 2;
  static constexpr int cone_level = 0;
  static constexpr std::size_t max_cone_bytes = 46000;
  static int cone_teams(int processors) { return 5 * processors; }

  static constexpr int move_team_size = 8;
  static constexpr int move_lanes = 32;

  /// Teams to launch for num_tasks tasks: eight teams of 256 threads fill a multiprocessor; more would only wait.
  static int league_size(int processors, int num_tasks) { return std::min(num_tasks, 8 * processors); }

  static int blocks_per_task(int /*processors*/, int /*num_tiles*/, int num_blocks, int team_size) {
    return std::min(num_blocks, 4 * team_size);
  }
};

/// CUDA: two teams per multiprocessor, each with a tile of 8 float samples of 1024 neurons (32 KB). Sums in registers
/// per thread: 16 for single outputs (512 threads, each with all samples of an output, so that a weight serves two
/// loads), 32 for blocks of 8 (256 threads, two lanes of 4). More teams would slow down late layers, in which few
/// samples are left: they would share few busy multiprocessors. Layers of at most 256 neurons: tiles of 32 samples,
/// which have no bank conflicts; of at most 128: also the layer's image in scratch. Wide layers, of single outputs
/// only: one team of 1024 threads, a tile of 8 samples in 128 KB.
template <class ExecutionSpace, class Scalar, int BlockOutputs, FusedTile Kind>
struct CudaFusedTuning {
  static constexpr bool is_small = Kind == FusedTile::small;
  static constexpr bool has_image = Kind == FusedTile::with_image;
  static constexpr bool is_wide = Kind == FusedTile::wide;
  static constexpr int pack_width = 16 / static_cast<int>(sizeof(Scalar));
  static constexpr int alike_outputs = 4; ///< outputs that read 32 bytes each, from all banks (passes/edge_order.hpp)
  using Tile =
      std::conditional_t<is_small || is_wide,
                         std::conditional_t<BlockOutputs == 1, RotatedTileShape<Scalar, pack_width, 1, alike_outputs>,
                                            TileShape<Scalar, pack_width, 1, 2>>,
                         TileShape<Scalar, pack_width, 1, 8>>;
  static constexpr int max_neurons = is_wide ? 4096 : is_small ? 1024 : has_image ? 128 : 256;
  static constexpr bool in_place = true;
  static constexpr bool prefetches = has_image;
  static constexpr int num_tiles = 1;
  static constexpr int team_size = is_wide ? 1024 : BlockOutputs == 1 ? 512 : has_image ? 128 : 256;
  static constexpr int teams_per_multiprocessor = is_wide ? 1 : has_image && BlockOutputs > 1 ? 3 : 2;
  static constexpr int passes = max_neurons / (team_size / Tile::num_lanes * BlockOutputs);
  static_assert(passes > 0);
  static constexpr int scratch_level = 0;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, teams_per_multiprocessor>>;
  static int league_size(int processors, int num_tiles) {
    return std::min(num_tiles, teams_per_multiprocessor * processors);
  }

  /// Measured on an H200: 14e12 weights per second in blocks, 5e12 of single outputs, 3e12 of wide layers whose edges
  /// ascend; compaction moves 3e12 bytes per second, each read and written.
  static LaunchCosts launch_costs(int processors) {
    int const teams = teams_per_multiprocessor * processors;
    return {.launch = 5e-6,
            .weight = is_wide             ? 3e-13
                      : BlockOutputs == 1 ? 2e-13
                                          : 7e-14,
            .moved_value = 2.0 * sizeof(Scalar) / 3e12,
            .full = static_cast<double>(teams * Tile::num_samples)};
  }
};

/// The same tiles for launches of single outputs whose layers are all so narrow that one thread per output would leave
/// half of the team idle: two threads share the samples of an output.
template <class ExecutionSpace, class Scalar>
struct CudaNarrowTuning : CudaFusedTuning<ExecutionSpace, Scalar, 1, FusedTile::small> {
  using Tile = TileShape<Scalar, 16 / static_cast<int>(sizeof(Scalar)), 1, 2>;
  static constexpr int passes = 1;
  static constexpr int max_outputs = CudaNarrowTuning::team_size / Tile::num_lanes;
};

// passes/edge_order.hpp models these tiles by kNumBanks and the widths of the widest.
static_assert(CudaFusedTuning<void, float, 1, FusedTile::small>::Tile::num_samples * sizeof(float) * kNumBanks == 128 &&
              CudaFusedTuning<void, double, 1, FusedTile::small>::Tile::num_samples * sizeof(double) * kNumBanks ==
                  128);
static_assert(CudaFusedTuning<void, float, 1, FusedTile::small>::max_neurons == kWidestInScratch &&
              CudaFusedTuning<void, float, 1, FusedTile::wide>::max_neurons == kWidestInLargeScratch);

#if defined(KOKKOS_ENABLE_CUDA)
template <class Scalar>
struct Tuning<Kokkos::Cuda, Scalar> : CudaTuning<Kokkos::Cuda, Scalar> {};

template <class Scalar, int BlockOutputs, FusedTile Kind>
struct FusedTuning<Kokkos::Cuda, Scalar, BlockOutputs, Kind>
    : CudaFusedTuning<Kokkos::Cuda, Scalar, BlockOutputs, Kind> {};
#endif

} // namespace varve
