#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"
#include "plan/device_traits.hpp"

#include <algorithm>
#include <cstddef>

namespace varve {

/// Constants that differ between backends; perf/TRIED.md has the measurements that chose them. `processors` are threads
/// on a host and multiprocessors on a GPU: see num_processors().
/// Host: one thread per team; a lane is four 64-byte vectors of samples (64 float samples per tile: 55e9 of the 58e9
/// edges per second that the L2 can feed; one vector: 36e9). Scalar lanes in a ThreadVectorRange are 20 times slower.
/// With shorter registers (AVX2: 16 of 32 bytes), a lane is two packs of 64 bytes. The sums of one output are then four
/// chains of fma, enough to hide the latency of the L2; the sums of a block of two use eight of sixteen registers.
template <class ExecutionSpace, class Scalar>
struct Tuning {
  static constexpr bool has_long_registers = host::kRegisterBytes == 64; ///< 32 of them (AVX-512)
  static constexpr int pack_width = 64 / static_cast<int>(sizeof(Scalar));
  using Tile = TileShape<Scalar, pack_width, has_long_registers ? 4 : 2, 1>;
  using FewTile = TileShape<Scalar, pack_width, 1, 1>; ///< tile of the direct kernel if all samples fit one tile

  static constexpr int slice_width = 1; ///< a thread computes one block at a time
  static constexpr int chunk_size = 1;
  /// A pattern block of 4 has sums in 16 of 32 vector registers (8 would spill), one of 2 in 8 of 16 shorter ones.
  static constexpr int block_outputs = has_long_registers ? 4 : 2;
  /// Outputs of a block in layers too wide for the fused kernel: 16 sums of one vector of samples each, so that a tile
  /// of 16384 neurons fits an L2 of 1 MiB.
  static constexpr int wide_block_outputs = has_long_registers ? 16 : 4;

  static constexpr PlanLimits limits = {
      /// Half of an L1 of 32 KiB (AVX2), two thirds of one of 48 KiB (AVX-512), beside weights and sums.
      .range_bytes = has_long_registers ? 32768 : 16384,
      .fewest_range_edges = 24.0, ///< 13 edges: 1.2 times as slow; 26: 0.9; 38: 0.6 to 0.7
      /// Blocks are chosen up to 2 stored weights per edge, because a block of 4 is 1.5 to 2 times as fast.
      .max_stored_in_fused_blocks = 2.0,
      .max_stationary_bytes = std::size_t(1) << 20U,
      .max_staged_inputs = 1024, ///< 256 KiB for 64 float samples, which fit the L2
      .max_staged_outputs = 1024,
      .min_staged_uses = 3.0,
      .max_stored_in_dense = has_long_registers ? 2.8 : 2.0,
      .dense_per_block_weight = 1.3,
      .narrowest_dense = 129,  ///< merged networks alternate, and each change is a launch
      .prefers_spread = false, ///< few samples use the direct kernel, whose tiles stay in caches
      .max_spread_bytes = std::size_t(1) << 20U,
      .max_single_samples = 3,
      .max_stored_in_few_dense = 2.5,
      .max_counted_outputs = 8192,
      .cone_other_cost = 3.0, ///< see place_cone_runs()
  };

  static constexpr bool has_large_tiles = false;
  using NarrowFused = void; ///< void: there are no small tiles of the fused kernel for launches of few outputs
  static constexpr bool has_wide_tiles = false;

  using WideBlockTile = FewTile;           ///< tile of the direct kernel with pattern blocks
  static constexpr int direct_threads = 1; ///< larger teams wait for their slowest thread: 1.25 to 2 times slower

  /// The stationary kernel never runs on CPUs; device_traits() reads only these sizes.
  using StationaryTile = TileShape<Scalar, 2, 1, 32>;
  using ListedStationaryTile = TileShape<Scalar, 1, 2, 32>;
  static constexpr bool has_stationary = false; ///< the caches already hold the weights
  using StationaryBounds = Kokkos::LaunchBounds<>;
  static constexpr int stationary_blocks = 8;
  static constexpr int stationary_team_size = 1;
  static constexpr int stationary_level = 1;
  static int stationary_teams(int processors) { return processors; }

  using StagedTile = Tile;
  using StagedPolicy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  static constexpr int staged_slice_width = 1;
  static constexpr int staged_team_size = 1;
  static constexpr int staged_level = 1;
  static int staged_league_size(int /*processors*/, int num_tiles, int num_stages) { return num_tiles * num_stages; }

  /// Dense layers: a block of 6 outputs has its sums in 24 of 32 vector registers, a block of 2 in 8 of 16 shorter
  /// ones.
  static constexpr int dense_outputs = has_long_registers ? 6 : 2;
  static constexpr int dense_chunk = 1;
  static constexpr bool has_dense_kernel = false; ///< the fused and the direct kernel compute dense layers
  using DenseTile = Tile;
  static int fewest_dense_tasks(int /*processors*/) { return 0; }

  static constexpr int expand_level = 1;
  static constexpr int expand_bytes = 32768;
  static constexpr int expand_team_size = 1;

  using BinaryTile =
      TileShape<Scalar, pack_width, has_long_registers ? 4 : 32 / pack_width, 1>; ///< whole words of bits
  using BinaryPolicy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  static constexpr bool binary_gathers_lines = false;
  static int binary_team_size(int /*num_outputs*/) { return 1; }

  /// With fewer samples than this, layers are computed one by one: fused tiles would occupy at most half of the
  /// threads.
  static std::size_t few_samples(int processors) {
    return static_cast<std::size_t>(processors) / 2 * Tile::num_samples + 1;
  }
  using SpreadTile = Tile;
  static constexpr std::size_t max_single_spread_samples = 0;
  using SpreadBounds = Kokkos::LaunchBounds<>;
  static constexpr int spread_team_size = 1;
  static constexpr int spread_stage_chunks = 0; ///< edges are read through the caches
  static constexpr int spread_stages = 2;
  static constexpr int spread_level = 1;
  static int spread_teams(int processors) { return processors; }

  /// The small-batch kernel computes up to two tiles FewTile. Per edge and sample, one core of an EPYC took 0.25 ns
  /// with tiles of one sample (dense weights: 0.05 to 0.12 ns), and 0.7 ns (dense: 0.3) for a tile of 16 samples.
  static constexpr bool has_small_batch_kernel = true;
  static constexpr int few_outputs = pack_width; ///< outputs that a thread computes together
  static constexpr int few_dense_chunk = 1;
  static constexpr int few_dense_piece = 1;
  static constexpr double few_cost_of_edge = 4.0; ///< time of an edge in sliced ELL, in units of a dense weight's
  static constexpr double few_cost_of_tile = 3.0; ///< time of a tile of FewTile, in units of a tile of one sample
  /// Threads of a launch whose layers take `work` each, in units of a dense weight's time. Each thread gets at least 25
  /// microseconds of work, because sleeping threads take tens of microseconds to start.
  static int few_threads(int processors, double work) {
    return static_cast<int>(std::clamp(work / 524288.0, 1.0, static_cast<double>(processors)));
  }

  static constexpr int log2_counted_samples = 6; ///< a team counts for 2^6 samples
  static constexpr std::size_t max_counted_bytes = 1U << 20U;

  static constexpr int entry_team_size = 1;
  static constexpr int entry_samples = 16;

  using ConeTile = Tile;
  using ConeBounds = Kokkos::LaunchBounds<>;
  static constexpr std::size_t cone_slots = 80; ///< 20 KB for 64 float samples, which fit the L1
  static constexpr int cone_group_size = 1;     ///< out-of-order processors overlap steps without groups
  static constexpr int cone_team_size = 1;
  static constexpr int cone_level = 1;
  static constexpr std::size_t max_cone_bytes = std::size_t(1) << 20U;
  static int cone_teams(int processors) { return 8 * processors; }

  static constexpr int move_team_size = 1;
  static constexpr int move_lanes = 1;

  /// Teams to launch for num_tasks tasks. Host teams are cheap (about 50 ns) and scheduled dynamically: one per task.
  static int league_size(int /*processors*/, int num_tasks) { return num_tasks; }

  /// Blocks of a tile that one task computes: all, unless that leaves threads idle.
  static int blocks_per_task(int processors, int num_tiles, int num_blocks, int /*team_size*/) {
    int const wanted_tasks = 4 * processors;
    int const parts = num_tiles >= wanted_tasks ? 1 : (wanted_tasks + num_tiles - 1) / std::max(1, num_tiles);
    return std::max(1, (num_blocks + parts - 1) / parts);
  }
};

/// Constants of the fused kernel by outputs per block and tile, for layers of at most max_neurons neurons.
template <class ExecutionSpace, class Scalar, int BlockOutputs, FusedTile>
struct FusedTuning {
  using Tile = typename Tuning<ExecutionSpace, Scalar>::Tile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  static constexpr int max_neurons = 8192; ///< two tiles of 64 float samples fit an L2 of 1 MiB up to 2048, L3 beyond
  static constexpr bool in_place = false;
  static constexpr bool prefetches = false;
  static constexpr int num_tiles = 2;
  static constexpr int team_size = 1;
  static constexpr int passes = 1;
  static constexpr int scratch_level = 1;
  static int league_size(int /*processors*/, int num_tiles) { return num_tiles; }

  /// Measured on two Ice Lake cores: 20e9 weights per second and core; moving a value takes as long as 40 weights.
  static LaunchCosts launch_costs(int processors) {
    auto const threads = static_cast<double>(processors);
    return {.launch = 1e-5,
            .weight = 5e-11 / threads,
            .moved_value = 2e-9 / threads,
            .full = threads * static_cast<double>(Tile::num_samples)};
  }
};

} // namespace varve
