#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/binary_samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace varve {

/// Input of the stationary kernel if position p is slot p: a lane loads packs of neighbouring samples.
template <class Tile>
struct SamplesInOrder {
  using Scalar = typename Tile::Scalar;
  using Line = typename Tile::PackType[Tile::packs_per_lane]; ///< one input's activations in the layout of load()
  static constexpr std::size_t line_bytes = Tile::num_samples * sizeof(Scalar);

  ArrayView<Scalar const> samples; ///< the tile, from the lane's first sample on

  template <class Kernel>
  KOKKOS_FORCEINLINE_FUNCTION SamplesInOrder(Kernel const& kernel, int tile, int /*count*/, int lane)
      : samples(part_of(tile_of(kernel.pass.previous, tile, kernel.layer.parameters.num_inputs, Tile::num_samples),
                        Tile::sample_of(lane, 0))) {
    static_assert(Tile::packs_per_lane == 1);
  }

  KOKKOS_FORCEINLINE_FUNCTION void load(Line& line, std::uint32_t input) const {
    copy(line[0], piece_at_byte<typename Tile::PackType>(samples, input * line_bytes));
  }
  KOKKOS_FORCEINLINE_FUNCTION auto const& value(Line const& line, int k) const { return line[k]; }
};

/// Input of the stationary kernel through the list of live samples: a lane loads its samples one by one.
template <class Tile>
struct SamplesInList {
  using Scalar = typename Tile::Scalar;
  using Line = typename Tile::PackType[Tile::packs_per_lane];
  static constexpr int num_samples = Tile::packs_per_lane * Tile::pack_width;

  Scalar const* sample[num_samples];

  template <class Kernel>
  KOKKOS_FORCEINLINE_FUNCTION SamplesInList(Kernel const& kernel, int tile, int count, int lane) {
    VARVE_UNROLL
    for (int i = 0; i < num_samples; ++i) {
      int const position =
          tile * Tile::num_samples + Tile::sample_of(lane, i / Tile::pack_width) + i % Tile::pack_width;
      int const slot = kernel.pass.slot_of(position, count);
      sample[i] = address_of_slot(kernel.pass.previous, slot, kernel.layer.parameters.num_inputs, Tile::num_samples);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void load(Line& line, std::uint32_t input) const {
    VARVE_UNROLL
    for (int i = 0; i < num_samples; ++i)
      line[i / Tile::pack_width].lane[i % Tile::pack_width] = sample[i][std::size_t(input) * Tile::num_samples];
  }
  KOKKOS_FORCEINLINE_FUNCTION auto const& value(Line const& line, int k) const { return line[k]; }
};

/// Input of the stationary kernel if the first layer's samples are bits (SampleBits): many lanes load the same word.
template <class Tile>
struct SamplesInBits {
  using Scalar = typename Tile::Scalar;
  using Line = std::uint32_t[1];
  static_assert(Tile::packs_per_lane == 1 && SampleBits<Scalar>::samples_per_word % Tile::pack_width == 0);

  std::uint32_t const* words; ///< words of all inputs; a View takes two more registers, which spill
  int first_bit;
  Scalar one;

  template <class Kernel>
  KOKKOS_FORCEINLINE_FUNCTION SamplesInBits(Kernel const& kernel, int tile, int /*count*/, int lane)
      : words(elements_of(kernel.bits.group(tile * Tile::num_samples + Tile::sample_of(lane, 0)), 0,
                          static_cast<std::size_t>(kernel.bits.num_neurons))),
        first_bit(Tile::sample_of(lane, 0) % SampleBits<Scalar>::samples_per_word),
        one(kernel.bits.value(0)) {}

  KOKKOS_FORCEINLINE_FUNCTION void load(Line& line, std::uint32_t input) const { line[0] = words[input]; }
  KOKKOS_FORCEINLINE_FUNCTION auto value(Line const& line, int /*k*/) const {
    typename Tile::PackType value;
    VARVE_UNROLL
    for (int i = 0; i < Tile::pack_width; ++i)
      value.lane[i] = (line[0] >> static_cast<unsigned>(first_bit + i) & 1U) != 0 ? one : Scalar(0);
    return value;
  }
};

/// One layer of all live samples with stationary weights: a team keeps the edges of a group of pattern blocks in
/// scratch and streams the samples past them. For layers too wide for the fused kernel, of any pattern and weights.
///   next(j, p) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, slot_of(p)), + bias(j))
/// league: groups of blocks x parts of the tiles, parts outermost, so that concurrent teams read the same tiles; team
/// threads: the blocks of the group; vector lanes: samples.
/// Samples are read through the list of live samples, if there is one, and written compacted, so compaction needs no
/// separate pass. Per block, input and tile it reads one line of activations through L1 and L2 for one fma per sample
/// and output of the block. Loads of two chunks of lines are always in flight; during the epilogue of a tile they are
/// loads of the next tile. Each weight is read from the L2 once per part, each activation from memory once per launch.
/// With many live samples bound by memory bandwidth: 3.1e12 bytes per second on an H200, three quarters of a copy's.
/// With few, bound by latency, because all warps of a launch begin and end together (perf/PROFILES.md).
template <class ExecutionSpace, class Format, class Tile, template <class> class Samples>
struct StationaryForward {
  static_assert(Format::slice_width == 1, "the edges of a block lie together");
  using Scalar = typename Tile::Scalar;
  using Index = typename Format::Index;
  using Edges = typename Format::Edges;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::StationaryBounds>;
  using Member = typename Policy::member_type;
  using Source = Samples<Tile>;
  using Sums = BlockSums<Tile, Format::block_outputs>;
  static constexpr int blocks_per_group = Tune::stationary_blocks;
  static constexpr int outputs_per_group = blocks_per_group * Format::block_outputs;
  static constexpr int chunk_size = Format::chunk_size;
  static constexpr int chunk_weights = chunk_size * Format::block_outputs;

  Edges layer;
  LayerPass<Scalar> pass;
  int max_chunks; ///< chunks of the longest block
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
    int const count = pass.num_samples(0);
    int const tiles = num_tiles(count, Tile::num_samples);
    if (part >= tiles) return;
    Edges const group = stage(team, first_block);
    for (int block = team.team_rank(); block < blocks_per_group && first_block + block < layer.num_blocks();
         block += team.team_size()) {
      auto const num_chunks =
          static_cast<int>(layer.slice_chunks(first_block + block + 1) - layer.slice_chunks(first_block + block));
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
        forward_tiles(group, block, num_chunks, {part, tiles, num_parts}, count, lane);
      });
    }
  }

private:
  /// Copies a group of blocks into scratch, with room for max_chunks chunks for each. Returns the group as a layer
  /// whose blocks are numbered from 0.
  KOKKOS_FORCEINLINE_FUNCTION Edges stage(Member const& team, int first_block) const {
    int const edges = blocks_per_group * max_chunks * chunk_size;
    ScratchArrays scratch(team, Tune::stationary_level, scratch_bytes(max_chunks), 16);
    auto const biases = scratch.take<double>(outputs_per_group);
    auto const weights = scratch.take<Scalar>(static_cast<std::size_t>(edges * Format::block_outputs));
    auto const indices = scratch.take<Index>(static_cast<std::size_t>(edges));
    auto const neurons = scratch.take<NeuronIndex>(outputs_per_group);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, +blocks_per_group), [&](int i) {
      if (first_block + i >= layer.num_blocks()) return;
      std::size_t const from = static_cast<std::size_t>(layer.slice_chunks(first_block + i)) * chunk_size;
      auto const held = static_cast<int>(layer.slice_chunks(first_block + i + 1) - layer.slice_chunks(first_block + i));
      int const to = i * max_chunks * chunk_size;
      copy_chunks<Format::block_outputs>(team, part_of(weights, to * Format::block_outputs),
                                         part_of(layer.weights, from * Format::block_outputs), held);
      copy_chunks<1>(team, part_of(indices, to), part_of(layer.indices, from), held);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Format::block_outputs), [&](int output) {
        int const position = i * Format::block_outputs + output;
        biases(position) = layer.parameters.bias_of(first_block * Format::block_outputs + position);
        neurons(position) = layer.parameters.neurons(first_block * Format::block_outputs + position);
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

  /// Copies `chunks` chunks with NumbersPerEdge numbers per edge; the lanes of a thread copy.
  template <std::size_t NumbersPerEdge, class Number>
  KOKKOS_FORCEINLINE_FUNCTION static void copy_chunks(Member const& team, ArrayView<Number> const& target,
                                                      ArrayView<Number const> const& source, int chunks) {
    constexpr std::size_t bytes_per_chunk = NumbersPerEdge * sizeof(Number) * chunk_size;
    constexpr std::size_t piece_bytes = bytes_per_chunk % 16 == 0 ? 16 : sizeof(Index);
    struct alignas(piece_bytes) Piece {
      unsigned char bytes[piece_bytes];
    };
    int const pieces = chunks * static_cast<int>(bytes_per_chunk / piece_bytes);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, pieces),
                         [&](int i) { piece_of<Piece>(target, i) = piece_of<Piece>(source, i); });
  }

  /// Every step-th tile from the first one on.
  struct Tiles {
    int first, end, step;
  };

  /// Computes a block's outputs for a lane's samples in these tiles. Two chunks of lines are in flight at a time; after
  /// the last two chunks of a tile, the first two of the next tile are loaded during the epilogue.
  KOKKOS_FORCEINLINE_FUNCTION void forward_tiles(Edges const& group, int block, int num_chunks, Tiles tiles, int count,
                                                 int lane) const {
    int const first_edge = block * max_chunks * chunk_size;
    auto const inputs = part_of(group.indices, first_edge);
    auto const weights = part_of(group.weights, first_edge * Format::block_outputs);
    auto const place_of = [&](int chunk) { return chunk < num_chunks ? chunk * chunk_size : 0; }; // 0: loaded, not used
    Source source(*this, tiles.first, count, lane);
    Lines lines[2] = {};
    if (num_chunks > 0) load(lines, source, inputs, 0, place_of(1));
    for (int tile = tiles.first; tile < tiles.end; tile += tiles.step) {
      bool const is_last = tile + tiles.step >= tiles.end;
      Source const next(*this, is_last ? tile : tile + tiles.step, count, lane);
      Sums sums;
      sums.clear_sums();
      int chunk = 0;
      for (; chunk + 2 < num_chunks; chunk += 2) {
        multiply(sums, source, lines[0], part_of(weights, chunk * chunk_weights));
        multiply(sums, source, lines[1], part_of(weights, (chunk + 1) * chunk_weights));
        load(lines, source, inputs, place_of(chunk + 2), place_of(chunk + 3));
      }
      if (chunk < num_chunks) multiply(sums, source, lines[0], part_of(weights, chunk * chunk_weights));
      if (chunk + 1 < num_chunks) multiply(sums, source, lines[1], part_of(weights, (chunk + 1) * chunk_weights));
      if (!is_last && num_chunks > 0) load(lines, next, inputs, 0, place_of(1));
      finish(sums, group, block, tile, lane);
      source = next;
    }
  }

  struct Lines {
    typename Source::Line of_edge[chunk_size];
  };

  KOKKOS_FORCEINLINE_FUNCTION static void load(Lines (&lines)[2], Source const& source,
                                               ArrayView<Index const> const& inputs, int first, int second) {
    auto const of_first = piece_at<Pack<Index, chunk_size>>(inputs, first);
    auto const of_second = piece_at<Pack<Index, chunk_size>>(inputs, second);
    VARVE_UNROLL
    for (int edge = 0; edge < chunk_size; ++edge) source.load(lines[0].of_edge[edge], of_first.lane[edge]);
    VARVE_UNROLL
    for (int edge = 0; edge < chunk_size; ++edge) source.load(lines[1].of_edge[edge], of_second.lane[edge]);
  }

  KOKKOS_FORCEINLINE_FUNCTION static void multiply(Sums& sums, Source const& source, Lines const& lines,
                                                   ArrayView<Scalar const> const& weights) {
    constexpr int per_piece = 16 / sizeof(Scalar); // weights of one 16-byte load
    VARVE_UNROLL
    for (int edge = 0; edge < chunk_size; ++edge) {
      VARVE_UNROLL
      for (int first = 0; first < Format::block_outputs; first += per_piece) {
        auto const piece = piece_at<Pack<Scalar, per_piece>>(weights, edge * Format::block_outputs + first);
        VARVE_UNROLL
        for (int i = 0; i < per_piece; ++i) {
          VARVE_UNROLL
          for (int k = 0; k < Tile::packs_per_lane; ++k)
            add_product(sums.sum[first + i][k], piece.lane[i], source.value(lines.of_edge[edge], k));
        }
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void finish(Sums& sums, Edges const& group, int block, int tile, int lane) const {
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    sums.finish_and_store(group.parameters, block,
                          tile_of(pass.next, tile, layer.parameters.num_outputs, Tile::num_samples), lane, seen);
    stamp_live<Tile>(seen, pass.live_stamps, tile, lane, pass.stamp);
  }
};

namespace detail {

template <class Tile, template <class> class Samples, class ExecutionSpace, class Format>
void launch_stationary(std::string const& label, ExecutionSpace const& space, Format const& layer,
                       LayerPass<typename Tile::Scalar> const& pass, SampleBits<typename Tile::Scalar> const& bits) {
  using Kernel = StationaryForward<ExecutionSpace, Format, Tile, Samples>;
  auto const edges = layer.edges();
  int const tiles = num_tiles(pass.max_samples, Tile::num_samples);
  if (tiles == 0 || edges.num_blocks() == 0) return;
  int const num_groups = (edges.num_blocks() + Kernel::blocks_per_group - 1) / Kernel::blocks_per_group;
  int const num_parts = std::clamp(Kernel::Tune::stationary_teams(num_processors(space)) / num_groups, 1, tiles);
  typename Kernel::Policy const policy(space, num_groups * num_parts, Kernel::Tune::stationary_team_size,
                                       Tile::num_lanes);
  launch_teams(label, policy, Kernel{edges, pass, layer.max_chunks, bits}, Kernel::Tune::stationary_level,
               Kernel::scratch_bytes(layer.max_chunks) + 32);
}

} // namespace detail

/// Launches StationaryForward on samples in tiles of StationaryTile::num_samples. Does not fence.
template <class ExecutionSpace, class Format>
void stationary_forward(ExecutionSpace const& space, Format const& layer,
                        LayerPass<typename Format::Scalar> const& pass) {
  using Tune = Tuning<ExecutionSpace, typename Format::Scalar>;
  using Listed = typename Tune::ListedStationaryTile;
  static_assert(Listed::num_samples == Tune::StationaryTile::num_samples);
  if (!pass.is_listed()) {
    detail::launch_stationary<typename Tune::StationaryTile, SamplesInOrder>("varve::stationary_forward", space, layer,
                                                                             pass, {});
  } else {
    detail::launch_stationary<Listed, SamplesInList>("varve::stationary_forward_listed", space, layer, pass, {});
  }
}

/// Launches StationaryForward for a first layer whose samples are bits; position p is slot p. Does not fence.
template <class ExecutionSpace, class Format>
void stationary_forward_bits(ExecutionSpace const& space, Format const& layer,
                             LayerPass<typename Format::Scalar> const& pass,
                             SampleBits<typename Format::Scalar> const& bits) {
  using Tile = typename Tuning<ExecutionSpace, typename Format::Scalar>::StationaryTile;
  detail::launch_stationary<Tile, SamplesInBits>("varve::stationary_forward_bits", space, layer, pass, bits);
}

} // namespace varve
