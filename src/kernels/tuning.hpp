#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"

#include <algorithm>

namespace varve {

/// Constants that differ between backends, each with the measurement that chose it (perf/RESULTS.md).
/// Host: one thread per team, a lane is four 64-byte vectors of samples (64 float samples a tile: 55 of 58 GE/s that
/// the L2 can feed, against 36 with one vector); a scalar lane over ThreadVectorRange is 20 times slower.
template <class ExecutionSpace, class Scalar>
struct Tuning {
  static constexpr int vector_bytes = 64;
  template <int PacksPerLane>
  using TileOf = TileShape<Scalar, vector_bytes / static_cast<int>(sizeof(Scalar)), PacksPerLane, 1>;
  using Tile = TileOf<4>;
  using NarrowTile = TileOf<1>;

  static constexpr int slice_width = 1; ///< a thread works through one output at a time
  static constexpr int chunk_size = 1;
  static constexpr int team_size = 1; ///< larger teams wait for their slowest thread: 1.25 to 2 times slower

  /// Teams to launch for this many tasks. Host teams are cheap (about 50 ns) and scheduled dynamically: one per task.
  static int league_size(ExecutionSpace const&, int num_tasks) { return num_tasks; }

  /// Outputs of a tile that one task computes: all, unless that leaves threads idle.
  static int outputs_per_task(ExecutionSpace const& space, int num_tiles, int num_outputs) {
    int const wanted_tasks = 4 * space.concurrency();
    int const blocks = num_tiles >= wanted_tasks ? 1 : (wanted_tasks + num_tiles - 1) / std::max(1, num_tiles);
    return std::max(1, (num_outputs + blocks - 1) / blocks);
  }
};

#if defined(KOKKOS_ENABLE_CUDA)
/// CUDA: a tile is 32 samples (one 128-byte line per neuron in float); 16-byte loads, so 8 lanes per output in float
/// and 4 outputs per warp, whose indices and weights are interleaved in slices of 4.
template <class Scalar>
struct Tuning<Kokkos::Cuda, Scalar> {
  static constexpr int pack_width = 16 / static_cast<int>(sizeof(Scalar));
  using Tile = TileShape<Scalar, pack_width, 1, 32 / pack_width>;
  using NarrowTile = TileShape<Scalar, pack_width, 1, 16 / pack_width>;

  static constexpr int slice_width = pack_width; ///< outputs per warp
  static constexpr int chunk_size = 8;           ///< sixteen bytes of 16-bit indices
  static constexpr int team_size = 256 / (32 / pack_width);

  /// Eight resident teams of 256 threads fill a multiprocessor; more only wait.
  static int league_size(Kokkos::Cuda const& space, int num_tasks) {
    return std::min(num_tasks, 8 * space.cuda_device_prop().multiProcessorCount);
  }

  static int outputs_per_task(Kokkos::Cuda const&, int, int num_outputs) { return std::min(num_outputs, 128); }
};
#endif

} // namespace varve
