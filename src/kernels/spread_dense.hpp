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

  ArrayView<Scalar const> weights;

  /// See ChunkPipeline.
  KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int chunk, int first, int rank) const {
    return source_piece(weights, static_cast<std::size_t>(chunk) * num_pieces + static_cast<std::size_t>(first + rank));
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
/// league: blocks of outputs x groups of tiles of one sample; team threads: outputs of the block x tiles of the group,
/// so a part of one warp, for the chains; all, for bringing weights and activations to scratch. The address of no load
/// depends on another load. A chain loads pieces of 16 bytes of weights and of activations. Reads each weight once per
/// group. For inputs that fit team scratch. Bound by latency: of the launch, of the first loads, and of the chain.
template <class ExecutionSpace, class Format, class Tile, class Tune_ = Tuning<ExecutionSpace, typename Tile::Scalar>>
struct SpreadDense {
  using Scalar = typename Tile::Scalar;
  using Tune = Tune_;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::SpreadBounds>;
  static_assert(Tile::num_samples == 1);
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int block_outputs = Format::block_outputs;
  static constexpr int most_tiles = 32 / block_outputs;
  static constexpr int chunk_inputs = spread_dense_chunk_bytes / static_cast<int>(sizeof(Scalar));
  using Chunks = BlockChunks<Format, chunk_inputs>;
  using Pipeline = ChunkPipeline<ExecutionSpace, Scalar, Chunks, team_size, spread_dense_stages>;

  typename Format::Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of one sample
  int tiles_per_team;

  /// Numbers of team scratch.
  KOKKOS_FORCEINLINE_FUNCTION static constexpr std::size_t scratch_size(std::size_t num_inputs, std::size_t num_tiles) {
    return Pipeline::size + num_tiles * Format::padded_inputs(num_inputs);
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_blocks = layer.num_blocks();
    auto const tiles = static_cast<std::size_t>(tiles_per_team);
    auto const num_inputs = static_cast<std::size_t>(layer.parameters.num_inputs);
    ScratchArrays scratch(team, Tune::spread_level, scratch_size(num_inputs, tiles) * sizeof(Scalar), 64);
    auto const buffers = scratch.template take<Scalar>(Pipeline::size);
    auto const inputs = scratch.template take<Scalar>(tiles * Format::padded_inputs(num_inputs));
    compute(team, team.league_rank() % num_blocks, team.league_rank() / num_blocks * tiles_per_team, buffers, inputs);
  }

  /// Computes a block of outputs for a team's tiles. inputs: [tile][input, padded].
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void compute(Member const& team, int block, int first_tile,
                                           ArrayView<Scalar> const& buffers, ArrayView<Scalar> const& inputs) const {
    int const rank = team.team_rank();
    Chunks const chunks{ArrayView<Scalar const>(layer.weights_of(block), layer.block_size())};
    Pipeline pipeline;
    pipeline.start(team, buffers, chunks);
    int count = pass.num_samples(0);
    hold(count);
    int const own_tile = rank / block_outputs;
    int const output = block * block_outputs + rank % block_outputs;
    bool const is_output = own_tile < tiles_per_team && output < layer.parameters.num_outputs;
    double const bias = layer.parameters.bias_of(is_output ? output : 0);
    bring_inputs(rank, first_tile, inputs);
    auto const padded = static_cast<int>(Format::padded_inputs(static_cast<std::size_t>(layer.parameters.num_inputs)));
    Sums sums;
    sums.clear_sums();
    for (int first = 0; first < padded; first += chunk_inputs) {
      auto const weights = pipeline.await(team, buffers, chunks, first / chunk_inputs);
      int const steps = (padded - first < chunk_inputs ? padded - first : chunk_inputs) / Operands::size;
      if (is_output) add_chunk(sums, weights, inputs, own_tile * padded + first, rank % block_outputs, steps);
    }
    if (is_output && first_tile + own_tile < count) hand_over(sums, output, bias, first_tile + own_tile);
  }

private:
  using Sums = BlockSums<Tile, 1>;

  /// The operands of some inputs, in registers.
  struct Operands {
    static constexpr int piece = Format::piece_inputs; ///< inputs of a load of 16 bytes
    static constexpr int size = Format::chunk_size;
    static_assert(size % piece == 0 && chunk_inputs % size == 0);
    using Piece = Pack<Scalar, piece>;
    Piece weights[size / piece];
    Piece values[size / piece];

    /// weights: of the chunk; input: within the chunk.
    KOKKOS_FORCEINLINE_FUNCTION void load(ArrayView<Scalar const> const& all_weights, ArrayView<Scalar> const& inputs,
                                          int place, int output, int input) {
      VARVE_UNROLL
      for (int i = 0; i < size / piece; ++i) {
        copy(weights[i], piece_of<Piece const>(all_weights, (input / piece + i) * block_outputs + output));
        copy(values[i], piece_of<Piece>(inputs, (place + input) / piece + i));
      }
      VARVE_UNROLL
      for (int i = 0; i < size / piece; ++i) {
        for (auto& number : weights[i].lane) hold(number);
        for (auto& number : values[i].lane) hold(number);
      }
    }
  };

  /// Brings the activations of a team's tiles to scratch; some are on their way at a time. Padding is 0.
  KOKKOS_FORCEINLINE_FUNCTION void bring_inputs(int rank, int first_tile, ArrayView<Scalar> const& inputs) const {
    constexpr int in_flight = 4;
    int const num_inputs = layer.parameters.num_inputs;
    auto const padded = static_cast<int>(inputs.size()) / tiles_per_team;
    int const tiles_left = pass.max_samples - first_tile;
    for (int first = rank; first < static_cast<int>(inputs.size()); first += in_flight * team_size) {
      Scalar numbers[in_flight];
      VARVE_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        int const place = first + i * team_size;
        int const tile = place / padded;
        int const input = place - tile * padded;
        bool const is_there = tile < tiles_per_team && tile < tiles_left && input < num_inputs;
        numbers[i] = 0;
        if (is_there)
          numbers[i] =
              pass.previous(static_cast<std::size_t>(first_tile + tile) * static_cast<std::size_t>(num_inputs) +
                            static_cast<std::size_t>(input));
      }
      VARVE_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        int const place = first + i * team_size;
        if (place < static_cast<int>(inputs.size())) inputs(place) = numbers[i];
      }
    }
  }

  /// Adds the products of `steps` times Operands::size inputs of a chunk to a chain: the operands of the next ones are
  /// on their way meanwhile. Two sets of operands alternate, as a copy of one would wait for its loads.
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(Sums& sums, ArrayView<Scalar const> const& weights,
                                                    ArrayView<Scalar> const& inputs, int place, int output, int steps) {
    Operands even;
    Operands odd;
    even.load(weights, inputs, place, output, 0);
    int step = 0;
    for (; step + 1 < steps; step += 2) {
      odd.load(weights, inputs, place, output, (step + 1) * Operands::size);
      add_products(sums, even);
      even.load(weights, inputs, place, output, (step + 2 < steps ? step + 2 : step) * Operands::size);
      add_products(sums, odd);
    }
    if (step < steps) add_products(sums, even);
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_products(Sums& sums, Operands const& operands) {
    VARVE_UNROLL
    for (int i = 0; i < Operands::size; ++i) {
      typename Tile::PackType value;
      value.lane[0] = operands.values[i / Operands::piece].lane[i % Operands::piece];
      add_product(sums.sum[0][0], operands.weights[i / Operands::piece].lane[i % Operands::piece], value);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void hand_over(Sums& sums, int output, double bias, int tile) const {
    typename Tile::Seen seen[1];
    clear(seen[0]);
    finish(sums.sum[0][0], bias, layer.parameters.bounds);
    see(seen[0], sums.sum[0][0]);
    sums.store(layer.parameters, output, tile_of(pass.next, tile, layer.parameters.num_outputs, 1), 0);
    if (pass.live_stamps.data() != nullptr) stamp_live<Tile>(seen, pass.live_stamps, tile, 0, pass.stamp);
  }
};

/// Launches SpreadDense. Samples lie in tiles of one. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void spread_dense(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  using Kernel = SpreadDense<ExecutionSpace, Format, Tile>;
  auto const edges = layer.edges();
  if (pass.max_samples == 0 || edges.num_blocks() == 0) return;
  int const tiles = std::min(pass.max_samples, +Kernel::most_tiles);
  int const groups = (pass.max_samples + tiles - 1) / tiles;
  typename Kernel::Policy policy(space, edges.num_blocks() * groups, +Kernel::team_size);
  std::size_t const size =
      Kernel::scratch_size(static_cast<std::size_t>(edges.parameters.num_inputs), static_cast<std::size_t>(tiles));
  policy.set_scratch_size(Kernel::Tune::spread_level,
                          Kokkos::PerTeam(static_cast<int>(size * sizeof(typename Tile::Scalar)) + 128));
  launch_teams("varve::spread_dense", policy, Kernel{edges, pass, tiles});
}

} // namespace varve
