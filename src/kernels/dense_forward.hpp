#pragma once

#include "core/execution.hpp"
#include "kernels/part_in_flight.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// One dense layer of all live samples by register tiles, for GPUs:
///   next(j, s) = clip(fma-chain over all inputs i, ascending, of weight(j, i) * previous(i, s), + bias(j))
/// league: tiles x blocks of outputs, blocks innermost, so that the teams that run together read the same tiles; team
/// threads: lanes of the tile x groups of `ThreadOutputs` outputs of the block. The inputs come in chunks: while a team
/// computes with the lines of one chunk and their weights in scratch, the next are on their way from the L2 to
/// registers; two buffers alternate, so there is one barrier a chunk. Per input a thread loads its samples and
/// ThreadOutputs weights from scratch for ThreadOutputs times as many fma as it has samples. An activation is read once
/// per block of outputs, a weight once per tile. Stamps the slots that hold a nonzero activation with pass.stamp. The
/// layer may be a strip of a layer.
/// Bound by fma, if the layer has enough tiles and blocks for all teams.
template <class ExecutionSpace, class Format, class Tile, int ThreadOutputs, class Bounds>
struct DenseForward {
  using Scalar = typename Tile::Scalar;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Bounds>;
  using Member = typename Policy::member_type;
  using Sums = BlockSums<Tile, ThreadOutputs>;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int chunk_size = Format::chunk_size;
  static constexpr int block_outputs = Format::block_outputs;
  static constexpr int num_groups = block_outputs / ThreadOutputs;
  static constexpr int team_size = Tile::num_lanes * num_groups;
  static constexpr int lines_size = chunk_size * num_samples;     ///< activations of a chunk
  static constexpr int weights_size = chunk_size * block_outputs; ///< weights of a chunk
  static constexpr int buffer_size = lines_size + weights_size;
  static_assert(block_outputs % ThreadOutputs == 0);

  typename Format::Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of Tile::num_samples

  /// Team scratch in bytes.
  static constexpr std::size_t scratch_bytes() { return 2 * sizeof(Scalar) * buffer_size; }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const buffers =
        ScratchArrays(team, 0, 2 * sizeof(Scalar) * buffer_size, 64).template take<Scalar>(2 * buffer_size);
    int const num_blocks = layer.num_blocks();
    int const num_tasks = num_tiles(pass.num_samples(0), num_samples) * num_blocks;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size())
      forward(team, task / num_blocks, task % num_blocks, buffers);
  }

private:
  /// The lines and weights of a chunk on their way to scratch.
  struct ChunkInFlight {
    PartInFlight<Scalar, lines_size, team_size> lines;
    PartInFlight<Scalar, weights_size, team_size> weights;
  };

  /// Computes a block of outputs for a tile.
  KOKKOS_FORCEINLINE_FUNCTION void forward(Member const& team, int tile, int block,
                                           ArrayView<Scalar> const& buffers) const {
    int const rank = team.team_rank();
    int const lane = rank % Tile::num_lanes;
    int const group = rank / Tile::num_lanes;
    int const num_chunks = layer.num_chunks();
    auto const inputs = tile_of(pass.previous, tile, layer.parameters.num_inputs, num_samples);
    ArrayView<Scalar const> const weights(layer.weights_of(block), static_cast<std::size_t>(num_chunks) * weights_size);
    Sums sums;
    sums.clear_sums();
    ChunkInFlight next{};
    bring(next, rank, inputs, weights, 0, num_chunks);
    keep(next, rank, buffers, 0);
    team.team_barrier();
    for (int chunk = 0; chunk < num_chunks; ++chunk) {
      bring(next, rank, inputs, weights, chunk + 1, num_chunks);
      add_chunk(sums, part_of(buffers, static_cast<std::size_t>(chunk % 2 * buffer_size), buffer_size), lane, group);
      keep(next, rank, buffers, (chunk + 1) % 2);
      team.team_barrier();
    }
    if (block * block_outputs + group * ThreadOutputs < layer.parameters.num_outputs)
      hand_over(sums, tile, block * num_groups + group, lane);
  }

  /// Loads a chunk, if there is one of this number, into registers.
  KOKKOS_FORCEINLINE_FUNCTION static void bring(ChunkInFlight& next, int rank, ArrayView<Scalar const> const& inputs,
                                                ArrayView<Scalar const> const& weights, int chunk, int num_chunks) {
    if (chunk >= num_chunks) return;
    next.lines.load(rank, part_of(inputs, static_cast<std::size_t>(chunk) * lines_size));
    next.weights.load(rank, part_of(weights, static_cast<std::size_t>(chunk) * weights_size));
  }

  /// Stores the chunk that is in registers in one of the two buffers.
  KOKKOS_FORCEINLINE_FUNCTION static void keep(ChunkInFlight const& next, int rank, ArrayView<Scalar> const& buffers,
                                               int buffer) {
    auto const first = static_cast<std::size_t>(buffer * buffer_size);
    next.lines.store(rank, part_of(buffers, first, lines_size));
    next.weights.store(rank, part_of(buffers, first + lines_size, weights_size));
  }

  /// Adds the products of a chunk of inputs to a thread's sums.
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(Sums& sums, ArrayView<Scalar const> const& buffer, int lane,
                                                    int group) {
    struct alignas(16) Weights {
      Scalar of[ThreadOutputs];
    };
    auto const weights = part_of(buffer, lines_size, weights_size);
    VARVE_UNROLL
    for (int input = 0; input < chunk_size; ++input) {
      typename Tile::PackType value[Tile::packs_per_lane];
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) copy(value[k], Tile::pack_at(buffer, input, lane, k));
      Weights const weight = piece_of<Weights>(weights, input * num_groups + group);
      VARVE_UNROLL
      for (int output = 0; output < ThreadOutputs; ++output) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sums.sum[output][k], weight.of[output], value[k]);
      }
    }
  }

  /// Finishes and writes the outputs of a thread: block `small_block` of ThreadOutputs outputs.
  KOKKOS_FORCEINLINE_FUNCTION void hand_over(Sums& sums, int tile, int small_block, int lane) const {
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    sums.finish_block(layer.parameters, small_block, seen);
    sums.store(layer.parameters, small_block, pass.outputs_of(tile, layer.parameters.num_outputs, num_samples), lane);
    stamp_live<Tile>(seen, pass.live_stamps, tile, lane, pass.stamp);
  }
};

/// Launches a DenseForward with at most `max_teams` teams. Does not fence.
template <class Kernel, class ExecutionSpace>
void dense_forward_by(ExecutionSpace const& space, Kernel const& kernel, int max_teams) {
  int const num_tasks = num_tiles(kernel.pass.max_samples, Kernel::num_samples) * kernel.layer.num_blocks();
  if (num_tasks == 0) return;
  typename Kernel::Policy policy(space, std::min(num_tasks, max_teams), +Kernel::team_size);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes()) + 128));
  launch_teams("varve::dense_forward", policy, kernel);
}

/// Launches DenseForward as the device's tuning has it. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void dense_forward(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  using Kernel = DenseForward<ExecutionSpace, Format, Tile, Tune::dense_thread_outputs, typename Tune::DenseBounds>;
  dense_forward_by(space, Kernel{layer.edges(), pass}, Tune::dense_teams(num_processors(space)));
}

} // namespace varve
