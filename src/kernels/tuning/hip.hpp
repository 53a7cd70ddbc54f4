#pragma once

#include "kernels/tuning/cuda.hpp"

#include <algorithm>
#include <cstddef>

namespace varve {

/// The limits of HIP from those of CUDA.
constexpr PlanLimits hip_limits(PlanLimits limits) {
  limits.max_staged_inputs = 144;  // 18 KB
  limits.max_spread_bytes = 32768; // 56 KB less up to 20 for the stages
  limits.max_stored_in_few_dense = 0.0;
  return limits;
}

/// HIP, derived from CudaTuning for one die of an MI250; NOTHING HERE IS MEASURED. All other constants are those of
/// CUDA. Differences: a compute unit has 64 KB of scratch (LDS; a multiprocessor of an H200 has 228 KB), of which
/// Kokkos leaves a team 56 KB; a wavefront has 64 lanes (a warp 32); a compute unit of four SIMD units holds 32
/// wavefronts; the second number of LaunchBounds is wavefronts per SIMD unit (CUDA: teams per multiprocessor).
template <class ExecutionSpace, class Scalar>
struct HipTuning : CudaTuning<ExecutionSpace, Scalar> {
  using NarrowFused = void;
  static constexpr bool has_wide_tiles = false;
  using Cuda = CudaTuning<ExecutionSpace, Scalar>;

  /// A tile of the fused kernel occupies 512 threads with blocks of 4, but 256 with blocks of 8. Scratch has room for
  /// one such tile per compute unit, so blocks of 4 give 8 wavefronts per compute unit instead of 4.
  static constexpr int block_outputs = 4;

  static constexpr PlanLimits limits = hip_limits(Cuda::limits);

  /// 18 KB of inputs for a team: three teams of 256 threads per compute unit.
  using StagedPolicy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<256, 3>>;
  static int staged_league_size(int processors, int num_tiles, int num_stages) {
    return std::min(num_tiles * num_stages, 3 * processors);
  }

  static constexpr int expand_bytes = 8192;               ///< room for six teams of 256 threads per compute unit
  static constexpr std::size_t max_counted_bytes = 18000; ///< room for three teams per compute unit

  static constexpr int entry_team_size = 64;

  using BinaryPolicy = Kokkos::TeamPolicy<ExecutionSpace>;
  static int binary_team_size(int num_outputs) { // whole wavefronts; lines use at most 17 KB: three teams
    return std::min(512 / static_cast<int>(sizeof(Scalar)), (num_outputs + 63) / 64 * 64);
  }

  using SpreadBounds = Kokkos::LaunchBounds<256, 1>;
  static constexpr int spread_stage_chunks = 8;

  /// In float one sample per lane of a wavefront and 20 KB for its slots: three teams of one wavefront per compute
  /// unit. Scratch, not registers, bounds the number of samples in flight.
  using ConeTile = TileShape<Scalar, 1, 1, 256 / static_cast<int>(sizeof(Scalar))>;
  using ConeBounds = Kokkos::LaunchBounds<64, 1>;
  static constexpr int cone_team_size = 64 / ConeTile::num_lanes;
  static int cone_teams(int processors) { return 3 * processors; }
};

/// HIP: the tiles of CUDA except the wide ones, for which a team's 64 KB are too small. Scratch has room for one team
/// per compute unit, so a team has as many threads as there is work for, up to 1024: 4 wavefronts per SIMD unit, 128
/// registers each. NOT MEASURED.
template <class ExecutionSpace, class Scalar, int BlockOutputs, FusedTile Kind>
struct HipFusedTuning : CudaFusedTuning<ExecutionSpace, Scalar, BlockOutputs, Kind> {
  using Cuda = CudaFusedTuning<ExecutionSpace, Scalar, BlockOutputs, Kind>;
  using Tile = typename Cuda::Tile; ///< passes/edge_order.hpp also holds for this tile on HIP: LDS has 32 banks
  static constexpr int team_size = std::min(1024, Cuda::max_neurons* Tile::num_lanes / BlockOutputs);
  static constexpr int passes = Cuda::max_neurons / (team_size / Tile::num_lanes * BlockOutputs);
  static_assert(passes > 0 && team_size % 64 == 0);
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, std::max(1, team_size / 256)>>;
  static int league_size(int processors, int num_tiles) { return std::min(num_tiles, processors); }

  /// The costs of an H200 scaled by the data sheets: a die does a third of its float operations (22.6e12 per second)
  /// and has a third of its bandwidth (1.6e12 bytes per second). A launch is assumed to take twice as long.
  static LaunchCosts launch_costs(int processors) {
    LaunchCosts const cuda = Cuda::launch_costs(processors);
    return {.launch = 2 * cuda.launch,
            .weight = 3 * cuda.weight,
            .moved_value = 3 * cuda.moved_value,
            .full = static_cast<double>(processors * Tile::num_samples)};
  }
};

#if defined(KOKKOS_ENABLE_HIP)
template <class Scalar>
struct Tuning<Kokkos::HIP, Scalar> : HipTuning<Kokkos::HIP, Scalar> {};

template <class Scalar, int BlockOutputs, FusedTile Kind>
struct FusedTuning<Kokkos::HIP, Scalar, BlockOutputs, Kind> : HipFusedTuning<Kokkos::HIP, Scalar, BlockOutputs, Kind> {
};
#endif

} // namespace varve
