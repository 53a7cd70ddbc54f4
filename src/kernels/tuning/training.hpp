#pragma once

#include "core/execution.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace varve {

/// Work sharing of the kernels of training. On CPUs a team is one thread and computes a block of rows for one leaf
/// after the other, so that the tile that all threads read stays in the caches. On GPUs a thread of a team (half a warp
/// in float) computes a row at a time.
template <class ExecutionSpace>
struct TrainingTuning {
  static constexpr bool on_host = kOnHost<ExecutionSpace>;
  static constexpr int team_size = on_host ? 1 : 8;
  static constexpr int rows_per_team = 8;             ///< rows of a block on a GPU
  static constexpr int edges_ahead = on_host ? 1 : 8; ///< edges that the forward kernel loads together
  /// Most edges and neurons of a series of layers (engine/trained_layers.hpp): their weights fit half of an L2 of 1
  /// MiB. 0: no series, because GPUs repeat the launches of a step as a graph.
  static constexpr std::size_t series_sums = on_host ? std::size_t(1) << 15U : 0;
  /// GPUs: bytes of partial sums of neighbouring layers that one launch adds up; they fit the L2 of an H100 (50 MB).
  /// CPUs: 0; a layer's sums are added immediately, while they are in a core's caches.
  static constexpr std::size_t group_bytes = on_host ? 0 : std::size_t(40) << 20U;
  /// From this number of weights on, a dense layer without gaps is transposed in blocks (TransposeWeights) after a
  /// step. Never on GPUs: the step's own scattered writes take at most 2 % of it.
  static constexpr std::size_t min_transposed_weights =
      on_host ? std::size_t(1) << 15U : std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t launch_edges = 4096; ///< edges whose forward pass for a leaf takes as long as a launch
  /// Launch bounds of FusedBackward: on GPUs 64 registers per thread, so that 32 warps share a multiprocessor.
  using BackwardBounds = std::conditional_t<on_host, Kokkos::LaunchBounds<>, Kokkos::LaunchBounds<128, 8>>;

  /// Number of blocks into which the backward kernels divide the rows.
  static int num_blocks(int processors, int num_rows) {
    return std::max(1, on_host ? std::min(processors, num_rows) : (num_rows + rows_per_team - 1) / rows_per_team);
  }

  /// Leaves (a power of two) that one team adds up: all of them, unless processors would be idle.
  static int leaves_per_run(int processors, int num_blocks, int num_leaves) {
    return leaves_of_runs(on_host ? processors : 32 * processors, num_blocks, num_leaves);
  }

  /// GPUs: the same for the teams of LeafGradientOnGpu.
  static int leaves_per_dense_run(int processors, int num_parts, int num_leaves) {
    return leaves_of_runs(8 * processors, num_parts, num_leaves);
  }

  static int leaves_of_runs(int wanted_teams, int num_blocks, int num_leaves) {
    int const wanted_runs = std::max(1, (wanted_teams + num_blocks - 1) / num_blocks);
    int leaves = 1;
    while (leaves * wanted_runs < num_leaves) leaves *= 2;
    return leaves;
  }

  /// Number of blocks of rows into which the forward kernel divides the outputs of each leaf.
  static int forward_blocks(int processors, int num_rows, int num_leaves) {
    if (!on_host) return num_blocks(processors, num_rows);
    int const wanted = 4 * processors;
    return std::clamp((wanted + num_leaves - 1) / std::max(1, num_leaves), 1, std::max(1, num_rows));
  }

  /// GPUs: blocks into which ScratchForward and ScratchBackward divide the rows of each half of a leaf: one team per
  /// multiprocessor, whose scratch has room for one.
  static int half_blocks(int processors, int num_rows, int num_halves) {
    return std::clamp(processors / std::max(1, num_halves), 1, std::max(1, num_rows / 16));
  }

  /// GPUs: halves of leaves (a power of two) that one team of ScratchBackward adds up.
  static int halves_per_run(int processors, int num_blocks, int num_halves) {
    int const teams = std::max(1, processors / num_blocks);
    int halves = 1;
    while (halves * teams < num_halves) halves *= 2;
    return halves;
  }
};

} // namespace varve
