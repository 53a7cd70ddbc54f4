#pragma once

#include "core/execution.hpp"
#include "kernels/chunk_pipeline.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// The activations and weights of a dense layer that a team multiplies, in chunks of `ChunkInputs` inputs:
/// [input][sample] of a tile, then [input][output] of `TeamOutputs` outputs of a block.
template <class Format, class Tile, int ChunkInputs, int TeamOutputs, int TeamSize>
struct DenseChunks {
  using Scalar = typename Tile::Scalar;
  static constexpr int piece_size = 16 / static_cast<int>(sizeof(Scalar));
  static constexpr int line_pieces = ChunkInputs * Tile::num_samples / piece_size;
  static constexpr int pieces_per_input = TeamOutputs / piece_size;
  static constexpr int num_pieces = line_pieces + ChunkInputs * pieces_per_input;
  static_assert(TeamOutputs % piece_size == 0 && Tile::num_samples % piece_size == 0);

  ArrayView<Scalar const> lines;   ///< activations of all inputs
  ArrayView<Scalar const> weights; ///< weights of the block from the team's first output on; inputs padded

  KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int chunk, int first, int rank) const {
    bool const is_line = line_pieces % TeamSize == 0 ? first < line_pieces : first + rank < line_pieces;
    if (is_line)
      return source_piece(lines,
                          static_cast<std::size_t>(chunk) * line_pieces + static_cast<std::size_t>(first + rank));
    int const piece = first + rank - line_pieces;
    constexpr std::size_t row_pieces = Format::block_outputs / piece_size;
    auto const input =
        static_cast<std::size_t>(chunk) * ChunkInputs + static_cast<std::size_t>(piece / pieces_per_input);
    return source_piece(weights, input * row_pieces + static_cast<std::size_t>(piece % pieces_per_input));
  }
};

/// One dense layer of all live samples by register tiles, for GPUs:
///   next(j, s) = clip(fma-chain over all inputs i, ascending, of weight(j, i) * previous(i, s), + bias(j))
/// league: tiles x parts of Team::team_outputs outputs, parts innermost, so that concurrent teams read the same tiles;
/// team threads: lanes of the tile x groups of Team::thread_outputs outputs of the part. Inputs are copied to scratch
/// in chunks (ChunkPipeline): while a team computes with one chunk of activations and weights, the next are in flight.
/// Per input a thread loads its samples and one weight per output from scratch, for one fma per sum. An activation is
/// read once per part of the outputs, a weight once per tile. Stamps the slots that hold a nonzero activation with
/// pass.stamp. The layer may be a strip of a layer. Bound by fma, if the layer has enough tiles and parts for all
/// teams.
template <class ExecutionSpace, class Format, class Tile, class Team, class Bounds>
struct DenseForward {
  using Scalar = typename Tile::Scalar;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Bounds>;
  using Member = typename Policy::member_type;
  using Sums = BlockSums<Tile, Team::thread_outputs>;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int team_outputs = Team::team_outputs;
  static constexpr int thread_outputs = Team::thread_outputs;
  static constexpr int parts_per_block = Format::block_outputs / team_outputs;
  static constexpr int num_groups = team_outputs / thread_outputs;
  static constexpr int team_size = Tile::num_lanes * num_groups;
  using Chunks = DenseChunks<Format, Tile, Team::chunk_inputs, team_outputs, team_size>;
  using Pipeline = ChunkPipeline<ExecutionSpace, Scalar, Chunks, team_size, Team::num_stages>;
  static_assert(Format::block_outputs % team_outputs == 0 && team_outputs % thread_outputs == 0);

  typename Format::Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of Tile::num_samples

  static constexpr std::size_t scratch_bytes() { return sizeof(Scalar) * Pipeline::size; }

  /// Parts of the outputs; the last parts of a layer's last block may be empty.
  KOKKOS_FUNCTION int num_parts() const { return (layer.parameters.num_outputs + team_outputs - 1) / team_outputs; }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const buffers =
        ScratchArrays(team, 0, sizeof(Scalar) * Pipeline::size, 64).template take<Scalar>(Pipeline::size);
    int const num_tasks = num_tiles(pass.num_samples(0), num_samples) * num_parts();
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      forward(team, task / num_parts(), task % num_parts(), buffers);
      team.team_barrier(); // all threads have finished with the buffers
    }
  }

private:
  /// Computes a part of the outputs for a tile.
  KOKKOS_FORCEINLINE_FUNCTION void forward(Member const& team, int tile, int part,
                                           ArrayView<Scalar> const& buffers) const {
    int const lane = team.team_rank() % Tile::num_lanes;
    int const group = team.team_rank() / Tile::num_lanes;
    int const num_chunks = (layer.parameters.num_inputs + Team::chunk_inputs - 1) / Team::chunk_inputs;
    int const within_block = part % parts_per_block * team_outputs;
    ArrayView<Scalar const> const block(layer.weights_of(part / parts_per_block), layer.block_size());
    Chunks const chunks{tile_of(pass.previous, tile, layer.parameters.num_inputs, num_samples),
                        part_of(block, static_cast<std::size_t>(within_block))};
    Sums sums;
    sums.clear_sums();
    Pipeline pipeline;
    pipeline.start(team, buffers, chunks);
    for (int chunk = 0; chunk < num_chunks; ++chunk)
      add_chunk(sums, pipeline.await(team, buffers, chunks, chunk), lane, group);
    int const small_block = part * num_groups + group;
    if (small_block * thread_outputs < layer.parameters.num_outputs) hand_over(sums, tile, small_block, lane);
  }

  /// Adds the products of a chunk of inputs to a thread's sums.
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(Sums& sums, ArrayView<Scalar const> const& buffer, int lane,
                                                    int group) {
    struct alignas(16) Weights {
      Scalar of[thread_outputs];
    };
    auto const weights = part_of(buffer, static_cast<std::size_t>(Team::chunk_inputs * num_samples));
    VARVE_UNROLL
    for (int input = 0; input < Team::chunk_inputs; ++input) {
      typename Tile::PackType value[Tile::packs_per_lane];
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) copy(value[k], Tile::pack_at(buffer, input, lane, k));
      Weights const weight = piece_of<Weights>(weights, input * num_groups + group);
      VARVE_UNROLL
      for (int output = 0; output < thread_outputs; ++output) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sums.sum[output][k], weight.of[output], value[k]);
      }
    }
  }

  /// Finishes and writes a thread's outputs: block `small_block` of thread_outputs outputs.
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
  int const num_tasks = num_tiles(kernel.pass.max_samples, Kernel::num_samples) * kernel.num_parts();
  if (num_tasks == 0) return;
  launch_teams("varve::dense_forward",
               typename Kernel::Policy(space, std::min(num_tasks, max_teams), +Kernel::team_size), kernel, 0,
               Kernel::scratch_bytes() + 128);
}

/// Launches DenseForward with the tuning of the device, with teams of fewer outputs if large teams would leave
/// multiprocessors idle. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void dense_forward(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  using Bounds = typename Tune::DenseBounds;
  using Large = DenseForward<ExecutionSpace, Format, Tile, typename Tune::LargeDense, Bounds>;
  using Small = DenseForward<ExecutionSpace, Format, Tile, typename Tune::SmallDense, Bounds>;
  static_assert(Large::team_size == Small::team_size);
  int const processors = num_processors(space);
  Large const large{layer.edges(), pass};
  if (num_tiles(pass.max_samples, Large::num_samples) * large.num_parts() >= Tune::fewest_large_dense(processors)) {
    dense_forward_by(space, large, Tune::dense_teams(processors));
  } else {
    dense_forward_by(space, Small{layer.edges(), pass}, Tune::dense_teams(processors));
  }
}

} // namespace varve
