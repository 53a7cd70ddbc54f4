#pragma once

#include "core/execution.hpp"
#include "core/held.hpp"
#include "kernels/chunk_pipeline.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>
#include <cstddef>

namespace varve {

/// The weights of a block of a dense layer in chunks of `ChunkInputs` inputs.
template <class Format, int ChunkInputs>
struct BlockChunks {
  using Scalar = typename Format::Scalar;
  static constexpr int num_pieces = ChunkInputs * Format::block_outputs * static_cast<int>(sizeof(Scalar)) / 16;

  ScratchPiece const* weights;
  int num_all_pieces; ///< of the block

  /// See ChunkPipeline.
  KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int chunk, int first, int rank) const {
    int const piece = chunk * num_pieces + first + rank;
    return {weights + (piece < num_all_pieces ? piece : 0), piece < num_all_pieces};
  }
};

/// Bytes of a chunk of an output's weights, and chunks in scratch or on their way.
inline constexpr int spread_dense_chunk_bytes = 1024;
inline constexpr int spread_dense_stages = 4;

/// Bytes of the weights in scratch, for blocks of so many outputs.
constexpr std::size_t spread_dense_buffers(int block_outputs) {
  return static_cast<std::size_t>(block_outputs) * spread_dense_chunk_bytes * spread_dense_stages;
}

/// One dense layer of one or a few samples, spread over the device: a team computes a block of outputs.
///   next(j, s) = clip(fma-chain over all inputs i, ascending, of weight(j, i) * previous(i, s), + bias(j))
/// league: blocks of outputs; team threads: outputs of the block x tiles of one sample, so a part of one warp, for the
/// chains; all, for bringing weights and activations to scratch. No division precedes the first loads, and the address
/// of no load depends on another load. A chain loads pieces of 16 bytes of weights and of activations. More tiles than
/// a warp has threads for are computed one group after the other. For inputs that fit team scratch. Bound by latency:
/// of the launch, of the first loads, and of the chain.
template <class ExecutionSpace, class Format, class Tile, class Tune_ = Tuning<ExecutionSpace, typename Tile::Scalar>>
struct SpreadDense {
  using Scalar = typename Tile::Scalar;
  using Tune = Tune_;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::SpreadBounds>;
  static_assert(Tile::num_samples == 1);
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int block_outputs = Format::block_outputs;
  static constexpr int most_tiles = 32 / block_outputs; ///< at a time
  static constexpr int chunk_inputs = spread_dense_chunk_bytes / static_cast<int>(sizeof(Scalar));
  using Chunks = BlockChunks<Format, chunk_inputs>;
  using Pipeline = ChunkPipeline<ExecutionSpace, Scalar, Chunks, team_size, spread_dense_stages>;

  typename Format::Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of one sample
  int num_padded;         ///< inputs of the layer, padded
  int tiles_at_a_time;

  SpreadDense(typename Format::Edges const& layer_, LayerPass<Scalar> const& pass_)
      : layer(layer_),
        pass(pass_),
        num_padded(static_cast<int>(Format::padded_inputs(static_cast<std::size_t>(layer_.parameters.num_inputs)))),
        tiles_at_a_time(std::min(pass_.max_samples, +most_tiles)) {}

  /// Numbers of team scratch.
  KOKKOS_FORCEINLINE_FUNCTION int scratch_size() const { return Pipeline::size + tiles_at_a_time * num_padded; }

  template <class Member>
  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const size = static_cast<std::size_t>(scratch_size());
    auto const numbers = ScratchArrays(team, Tune::spread_level, size * sizeof(Scalar), 64).template take<Scalar>(size);
    compute(team, team.league_rank(), numbers);
  }

  /// Computes a block of outputs. scratch: the buffers of weights, then [tile][input, padded].
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void compute(Member const& team, int block, ArrayView<Scalar> const& scratch) const {
    compute_tiles(team, block, 0, scratch);
    for (int first_tile = tiles_at_a_time; first_tile < pass.max_samples; first_tile += tiles_at_a_time) {
      team.team_barrier(); // all are done with scratch
      compute_tiles(team, block, first_tile, scratch);
    }
  }

private:
  using Sums = BlockSums<Tile, 1>;
  using Piece = Pack<Scalar, Format::piece_inputs>;
  static constexpr int pieces_of_step = Format::chunk_size / Format::piece_inputs;
  static_assert(chunk_inputs % Format::chunk_size == 0 && sizeof(Piece) == 16);

  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void compute_tiles(Member const& team, int block, int first_tile,
                                                 ArrayView<Scalar> const& scratch) const {
    int const rank = team.team_rank();
    constexpr int pieces_of_input = block_outputs / Format::piece_inputs;
    int const pieces = num_padded * pieces_of_input;
    Chunks const chunks{
        &piece_of<ScratchPiece>(layer.weights, static_cast<std::size_t>(block) * static_cast<std::size_t>(pieces)),
        pieces};
    auto const buffers = part_of(scratch, 0, Pipeline::size);
    Pipeline pipeline;
    pipeline.start(team, buffers, chunks);
    int count = pass.num_samples(0);
    hold(count);
    int const tile = rank / block_outputs;
    int const output = block * block_outputs + rank % block_outputs;
    bool const is_output = tile < tiles_at_a_time && output < layer.parameters.num_outputs;
    int const known = is_output ? output : 0;
    double const bias = layer.parameters.bias_of(known);
    auto const neuron = Sums::neurons_of(layer.parameters, known);
    bring_inputs(rank, first_tile, scratch);
    Sums sums;
    sums.clear_sums();
    for (int first = 0; first < num_padded; first += chunk_inputs) {
      auto const weights = pipeline.await(team, buffers, chunks, first / chunk_inputs);
      int const left = num_padded - first;
      if (is_output)
        add_chunk(sums, elements_of(weights, 0, Pipeline::buffer_size) + rank % block_outputs * Format::piece_inputs,
                  elements_of(scratch, static_cast<std::size_t>(Pipeline::size + tile * num_padded + first), 1),
                  (left < chunk_inputs ? left : chunk_inputs) / Format::chunk_size);
    }
    if (is_output && first_tile + tile < count) hand_over(sums, output, bias, neuron, first_tile + tile);
  }

  /// Brings the activations of some tiles to scratch, in_flight loads of a thread at a time. Padding is 0.
  KOKKOS_FORCEINLINE_FUNCTION void bring_inputs(int rank, int first_tile, ArrayView<Scalar> const& scratch) const {
    constexpr int in_flight = 4;
    int const num_inputs = layer.parameters.num_inputs;
    for (int tile = 0; tile < tiles_at_a_time; ++tile) {
      bool const is_tile = first_tile + tile < pass.max_samples;
      auto const from = place_of_slot(is_tile ? first_tile + tile : 0, num_inputs, 1);
      auto const to = Pipeline::size + tile * num_padded;
      for (int first = rank; first < num_padded; first += in_flight * team_size) {
        Scalar numbers[in_flight];
        VARVE_UNROLL
        for (int i = 0; i < in_flight; ++i) {
          int const input = first + i * team_size;
          numbers[i] = 0;
          if (is_tile && input < num_inputs) numbers[i] = pass.previous(from + static_cast<std::size_t>(input));
        }
        VARVE_UNROLL
        for (int i = 0; i < in_flight; ++i)
          if (first + i * team_size < num_padded) scratch(to + first + i * team_size) = numbers[i];
      }
    }
  }

  /// Adds the products of `steps` times Format::chunk_size inputs to a chain. Addresses are constants behind two that
  /// grow, so that the loads of some steps can be issued before the chain needs the first.
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(Sums& sums, Scalar const* weights, Scalar const* inputs,
                                                    int steps) {
    constexpr int together = 4;
    for (; steps >= together; steps -= together) add_steps<together>(sums, weights, inputs);
    for (; steps > 0; --steps) add_steps<1>(sums, weights, inputs);
  }

  template <int Steps>
  KOKKOS_FORCEINLINE_FUNCTION static void add_steps(Sums& sums, Scalar const*& weights, Scalar const*& inputs) {
    constexpr int count = Steps * pieces_of_step;
    Piece weight[count];
    Piece value[count];
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      copy(weight[i], reinterpret_cast<Piece const*>(weights)[i * block_outputs]);
      copy(value[i], reinterpret_cast<Piece const*>(inputs)[i]);
    }
    weights += count * block_outputs * Format::piece_inputs;
    inputs += count * Format::piece_inputs;
    VARVE_UNROLL
    for (int i = 0; i < count * Format::piece_inputs; ++i) {
      typename Tile::PackType one;
      one.lane[0] = value[i / Format::piece_inputs].lane[i % Format::piece_inputs];
      add_product(sums.sum[0][0], weight[i / Format::piece_inputs].lane[i % Format::piece_inputs], one);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void hand_over(Sums& sums, int output, double bias, typename Sums::Neurons const& neuron,
                                             int tile) const {
    typename Tile::Seen seen[1];
    clear(seen[0]);
    finish(sums.sum[0][0], bias, layer.parameters.bounds);
    see(seen[0], sums.sum[0][0]);
    sums.store(layer.parameters, output, neuron, tile_of(pass.next, tile, layer.parameters.num_outputs, 1), 0);
    if (pass.live_stamps.data() != nullptr) stamp_live<Tile>(seen, pass.live_stamps, tile, 0, pass.stamp);
  }
};

/// Launches SpreadDense. Samples lie in tiles of one. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void spread_dense(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  using Kernel = SpreadDense<ExecutionSpace, Format, Tile>;
  auto const edges = layer.edges();
  if (pass.max_samples == 0 || edges.num_blocks() == 0) return;
  Kernel const kernel(edges, pass);
  typename Kernel::Policy policy(space, edges.num_blocks(), +Kernel::team_size);
  auto const bytes = kernel.scratch_size() * static_cast<int>(sizeof(typename Tile::Scalar));
  policy.set_scratch_size(Kernel::Tune::spread_level, Kokkos::PerTeam(bytes + 128));
  launch_teams("varve::spread_forward_dense", policy, kernel);
}

} // namespace varve
