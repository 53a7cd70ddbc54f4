#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/binary_samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// One layer of all live samples with stationary weights: a team keeps the edges of a group of pattern blocks in
/// scratch while the samples pass by. For layers too wide for the fused kernel, of any pattern and weights.
///   next(j, p) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, slot_of(p)), + bias(j))
/// league: groups of blocks x parts of the tiles, parts outermost, so that the teams that run together read the same
/// tiles; team threads: the blocks of the group; vector lanes: samples, each lane one of every pack of the tile.
/// Samples are read where they lie, through the list of live ones, and written packed: compaction costs no pass of its
/// own. Per block, input and tile it reads one line of activations through L1 and L2, two groups of `ahead` lines in
/// flight, for as many fma as the block has outputs; each weight is read from the L2 once per part. Bound by the
/// latency and bandwidth of the L2, then of memory (each activation once per launch).
/// FromBits: the first layer, of samples in order that are given as bits; a lane's activation is one bit of a word that
/// all lanes read.
template <class ExecutionSpace, class Format, class Tile, bool FromBits>
struct StationaryForward {
  static_assert(Tile::pack_width == 1, "a lane gathers single samples");
  static_assert(Format::slice_width == 1, "the edges of a block lie together");
  using Scalar = typename Tile::Scalar;
  using Index = typename Format::Index;
  using Edges = typename Format::Edges;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::StationaryBounds>;
  using Member = typename Policy::member_type;
  using Sums = BlockSums<Tile, Format::block_outputs>;
  static constexpr int blocks_per_group = Tune::stationary_blocks;
  static constexpr int outputs_per_group = blocks_per_group * Format::block_outputs;
  static constexpr int chunk_size = Format::chunk_size;
  static constexpr int ahead = chunk_size;

  Edges layer;
  LayerPass<Scalar> pass;
  int max_chunks; ///< of a block
  SampleBits<Scalar> bits;

  /// Team scratch in bytes: weights and indices, biases and neurons of a group.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int max_chunks) {
    return static_cast<std::size_t>(blocks_per_group * max_chunks * chunk_size) *
               (Format::block_outputs * sizeof(Scalar) + sizeof(Index)) +
           outputs_per_group * (sizeof(double) + sizeof(NeuronIndex));
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_groups = (layer.num_blocks() + blocks_per_group - 1) / blocks_per_group;
    int const num_parts = team.league_size() / num_groups;
    int const first_block = team.league_rank() % num_groups * blocks_per_group;
    int const part = team.league_rank() / num_groups;
    int const count = *pass.num_samples;
    int const tiles = num_tiles(count, Tile::num_samples);
    if (part >= tiles) return;
    Edges const group = stage(team, first_block);
    for (int block = team.team_rank(); block < blocks_per_group && first_block + block < layer.num_blocks();
         block += team.team_size()) {
      auto const num_edges =
          static_cast<int>(layer.slice_chunks[first_block + block + 1] - layer.slice_chunks[first_block + block]) *
          chunk_size;
      for (int tile = part; tile < tiles; tile += num_parts) {
        Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes),
                             [&](int lane) { forward_lane(group, block, num_edges, tile, count, lane); });
      }
    }
  }

private:
  /// Brings a group into scratch: max_chunks chunks for each block. There, blocks count from 0.
  KOKKOS_FORCEINLINE_FUNCTION Edges stage(Member const& team, int first_block) const {
    int const edges = blocks_per_group * max_chunks * chunk_size;
    auto* const biases =
        static_cast<double*>(team.team_scratch(+Tune::stationary_level)
                                 .get_shmem_aligned(static_cast<std::ptrdiff_t>(scratch_bytes(max_chunks)), 16));
    auto* const weights = reinterpret_cast<Scalar*>(biases + outputs_per_group);
    auto* const indices = reinterpret_cast<Index*>(weights + edges * Format::block_outputs);
    auto* const neurons = reinterpret_cast<NeuronIndex*>(indices + edges);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, +blocks_per_group), [&](int i) {
      if (first_block + i >= layer.num_blocks()) return;
      std::size_t const from = static_cast<std::size_t>(layer.slice_chunks[first_block + i]) * chunk_size;
      auto const held = static_cast<int>(layer.slice_chunks[first_block + i + 1] - layer.slice_chunks[first_block + i]);
      int const to = i * max_chunks * chunk_size;
      copy_pieces<Format::block_outputs * sizeof(Scalar)>(team, weights + to * Format::block_outputs,
                                                          layer.weights + from * Format::block_outputs, held);
      copy_pieces<sizeof(Index)>(team, indices + to, layer.indices + from, held);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Format::block_outputs), [&](int output) {
        int const position = i * Format::block_outputs + output;
        biases[position] = layer.parameters.bias_of(first_block * Format::block_outputs + position);
        neurons[position] = layer.parameters.neurons[first_block * Format::block_outputs + position];
      });
    });
    team.team_barrier();
    Edges group = layer;
    group.weights = weights;
    group.indices = indices;
    group.parameters.bias = biases;
    group.parameters.bias_stride = 1;
    group.parameters.neurons = neurons;
    group.parameters.num_outputs -= first_block * Format::block_outputs;
    return group;
  }

  /// Copies `chunks` chunks of elements of this size by the lanes of a thread.
  template <std::size_t ElementBytes>
  KOKKOS_FORCEINLINE_FUNCTION static void copy_pieces(Member const& team, void* target, void const* source,
                                                      int chunks) {
    constexpr std::size_t bytes_per_chunk = ElementBytes * chunk_size;
    constexpr std::size_t piece_bytes = bytes_per_chunk % 16 == 0 ? 16 : sizeof(Index);
    struct alignas(piece_bytes) Piece {
      unsigned char bytes[piece_bytes];
    };
    int const pieces = chunks * static_cast<int>(bytes_per_chunk / piece_bytes);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, pieces),
                         [&](int i) { static_cast<Piece*>(target)[i] = static_cast<Piece const*>(source)[i]; });
  }

  KOKKOS_FORCEINLINE_FUNCTION void forward_lane(Edges const& group, int block, int num_edges, int tile, int count,
                                                int lane) const {
    int const first_edge = block * max_chunks * chunk_size;
    Index const* const inputs = group.indices + first_edge;
    Scalar const* const weights = group.weights + first_edge * Format::block_outputs;
    Source const source(*this, tile, count, lane);
    Sums sums;
    sums.clear_sums();
    Values values[2]; // one is on its way while the other is used
    if (num_edges > 0) load(values[0], source, inputs);
    for (int edge = 0; edge < num_edges; edge += 2 * ahead) {
      bool const has_second = edge + ahead < num_edges;
      if (has_second) load(values[1], source, inputs + edge + ahead);
      multiply(sums, values[0], weights + edge * Format::block_outputs);
      if (edge + 2 * ahead < num_edges) load(values[0], source, inputs + edge + 2 * ahead);
      if (has_second) multiply(sums, values[1], weights + (edge + ahead) * Format::block_outputs);
    }
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    sums.finish_block(group.parameters, block, seen);
    sums.store(group.parameters, block,
               pass.next + place_of_slot(tile * Tile::num_samples, layer.parameters.num_outputs, Tile::num_samples),
               lane);
    stamp_live<Tile>(seen, pass.live_stamps + tile * Tile::num_samples, lane, pass.stamp);
  }

  struct Values {
    typename Tile::PackType at[ahead][Tile::packs_per_lane];
  };

  /// Where a lane finds its samples' activations.
  struct SourceInTiles {
    Scalar const* samples[Tile::packs_per_lane];

    KOKKOS_FORCEINLINE_FUNCTION SourceInTiles(StationaryForward const& kernel, int tile, int count, int lane) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) {
        int const slot = kernel.pass.slot_of(tile * Tile::num_samples + Tile::sample_of(lane, k), count);
        samples[k] = kernel.pass.previous + place_of_slot(slot, kernel.layer.parameters.num_inputs, Tile::num_samples);
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION Scalar at(int k, std::size_t input) const {
      return samples[k][input * Tile::num_samples];
    }
  };

  struct SourceInBits {
    std::uint32_t const* words[Tile::packs_per_lane];
    std::uint32_t bit;
    Scalar value;

    KOKKOS_FORCEINLINE_FUNCTION SourceInBits(StationaryForward const& kernel, int tile, int, int lane)
        : bit(std::uint32_t(1) << static_cast<std::uint32_t>(lane)), value(*kernel.bits.value) {
      static_assert(Tile::num_lanes == SampleBits<Scalar>::samples_per_word);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        words[k] = kernel.bits.group(tile * Tile::num_samples + Tile::sample_of(0, k));
    }

    KOKKOS_FORCEINLINE_FUNCTION Scalar at(int k, std::size_t input) const {
      return (words[k][input] & bit) != 0 ? value : Scalar(0);
    }
  };

  using Source = std::conditional_t<FromBits, SourceInBits, SourceInTiles>;

  KOKKOS_FORCEINLINE_FUNCTION static void load(Values& values, Source const& source, Index const* inputs) {
    auto const group = *reinterpret_cast<Pack<Index, ahead> const*>(inputs);
    VARVE_UNROLL
    for (int edge = 0; edge < ahead; ++edge) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        values.at[edge][k].lane[0] = source.at(k, static_cast<std::size_t>(group.lane[edge]));
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION static void multiply(Sums& sums, Values const& values, Scalar const* weights) {
    constexpr int per_piece = 16 / sizeof(Scalar); // what one load takes
    VARVE_UNROLL
    for (int edge = 0; edge < ahead; ++edge) {
      VARVE_UNROLL
      for (int first = 0; first < Format::block_outputs; first += per_piece) {
        auto const piece =
            *reinterpret_cast<Pack<Scalar, per_piece> const*>(weights + edge * Format::block_outputs + first);
        VARVE_UNROLL
        for (int i = 0; i < per_piece; ++i) {
          VARVE_UNROLL
          for (int k = 0; k < Tile::packs_per_lane; ++k)
            add_product(sums.sum[first + i][k], piece.lane[i], values.at[edge][k]);
        }
      }
    }
  }
};

/// True if a group of the layer's blocks fits team scratch; `layer` is a format or what it is made from.
template <class Tile, class ExecutionSpace, class Layer>
bool can_be_stationary(Layer const& layer) {
  using Kernel = StationaryForward<ExecutionSpace, typename Layer::Format, Tile, false>;
  return Kernel::scratch_bytes(layer.max_chunks) <= Kernel::Tune::max_stationary_bytes;
}

/// Launches StationaryForward. Samples lie in tiles of Tile::num_samples, or in bits. Does not fence.
template <class Tile, bool FromBits, class ExecutionSpace, class Format>
void stationary_forward(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass,
                        SampleBits<typename Tile::Scalar> const& bits) {
  using Kernel = StationaryForward<ExecutionSpace, Format, Tile, FromBits>;
  auto const edges = layer.edges();
  int const tiles = num_tiles(pass.max_samples, Tile::num_samples);
  if (tiles == 0 || edges.num_blocks() == 0) return;
  int const num_groups = (edges.num_blocks() + Kernel::blocks_per_group - 1) / Kernel::blocks_per_group;
  int const num_parts = std::clamp(Kernel::Tune::stationary_teams(space) / num_groups, 1, tiles);
  typename Kernel::Policy policy(space, num_groups * num_parts, Kernel::Tune::stationary_team_size, Tile::num_lanes);
  policy.set_scratch_size(Kernel::Tune::stationary_level,
                          Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes(layer.max_chunks)) + 32));
  Kokkos::parallel_for(FromBits ? "varve::stationary_forward_bits" : "varve::stationary_forward", policy,
                       Kernel{edges, pass, layer.max_chunks, bits});
}

} // namespace varve
