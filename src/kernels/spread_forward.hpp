#pragma once

#include "core/execution.hpp"
#include "core/held.hpp"
#include "core/large_scratch.hpp"
#include "kernels/edge_stages.hpp"
#include "kernels/spread_share.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// One layer of few samples, spread over the device: a team copies the activations of some tiles into scratch and
/// computes some slices of outputs, so that a layer of one tile keeps many teams at work. For inputs that fit team
/// scratch.
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j))
/// league: groups of tiles x parts of the slices; team threads: lanes of a tile x outputs of a slice x tiles. The
/// longest chain of fma decides the time of a layer, and few threads have one: so all threads of the team bring edges
/// to scratch, some stages ahead, and a chain waits for scratch only. Reads the weights once per group of tiles. Bound by
/// latency: of the launch, of the loads of tiles and first edges, and of the chain.
template <class ExecutionSpace, class Format, class Tile>
struct SpreadForward {
  static_assert(Format::block_outputs == 1);
  using Scalar = typename Tile::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::SpreadBounds>;
  using Member = typename Policy::member_type;
  using Sums = BlockSums<Tile, 1>;
  using Edges = typename Format::Edges;
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int slice_width = Format::slice_width;
  static constexpr int threads_per_tile = slice_width * Tile::num_lanes;
  static constexpr int most_tiles = team_size / threads_per_tile;
  static constexpr int stage_chunks = Tune::spread_stage_chunks; ///< 0: on hosts, edges come through the caches
  static constexpr int packs_in_flight = 8;
  using Stages =
      EdgeStages<Scalar, typename Format::Index, slice_width * Format::chunk_size, stage_chunks, team_size>;
  using Pipeline = ChunkPipeline<ExecutionSpace, std::byte, Stages, team_size, Tune::spread_stages>;

  Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of Tile::num_samples
  int tiles_per_team;
  int slices_per_team;

  /// Team scratch in bytes.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int num_inputs, int num_tiles) {
    return Pipeline::size +
           static_cast<std::size_t>(num_inputs) * static_cast<std::size_t>(num_tiles) * num_samples * sizeof(Scalar);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_slices = (layer.parameters.num_outputs + slice_width - 1) / slice_width;
    int const parts = (num_slices + slices_per_team - 1) / slices_per_team;
    int const first_tile = team.league_rank() / parts * tiles_per_team;
    int const first_slice = team.league_rank() % parts * slices_per_team;
    int const end_of_slices = first_slice + slices_per_team < num_slices ? first_slice + slices_per_team : num_slices;
    forward(team, Scratch(team, layer.parameters.num_inputs, tiles_per_team), first_tile, first_slice, end_of_slices);
  }

private:
  struct Scratch {
    KOKKOS_FORCEINLINE_FUNCTION Scratch(Member const& team, int num_inputs, int num_tiles)
        : arrays(team, Tune::spread_level, scratch_bytes(num_inputs, num_tiles), 64),
          stages(arrays.template take<std::byte>(Pipeline::size)),
          inputs(arrays.template take<Scalar>(static_cast<std::size_t>(num_inputs) *
                                              static_cast<std::size_t>(num_tiles) * num_samples)) {}
    ScratchArrays arrays;
    ArrayView<std::byte> stages;
    ArrayView<Scalar> inputs;
  };

  /// A thread's part in the work of its team.
  struct Own {
    bool computes; ///< it has a tile with samples
    int tile;
    int output; ///< of each slice
    int lane;
    ArrayView<Scalar const> inputs; ///< of the team's tiles
    std::uint32_t first_byte;       ///< of its samples of input 0
  };

  KOKKOS_FORCEINLINE_FUNCTION Own own_part(int rank, Scratch const& scratch, int first_tile) const {
    int const tile = rank / threads_per_tile < tiles_per_team ? rank / threads_per_tile : 0;
    int const lane = rank % Tile::num_lanes;
    bool const has_samples = (first_tile + tile) * num_samples < pass.num_samples(0);
    auto first = static_cast<std::uint32_t>(
        (tile * layer.parameters.num_inputs * num_samples + Tile::sample_of(lane, 0)) * sizeof(Scalar));
    hold(first); // computed once
    return {has_samples && tile == rank / threads_per_tile,
            first_tile + tile,
            rank / Tile::num_lanes % slice_width,
            lane,
            scratch.inputs,
            first};
  }

  /// Computes slices of outputs for the tiles of a team. All loads that wait for no other are issued at once: those of
  /// the tiles, also of tiles without samples, of the first edges, and of the number of samples.
  KOKKOS_FORCEINLINE_FUNCTION void forward(Member const& team, Scratch const& scratch, int first_tile, int first_slice,
                                           int end_of_slices) const {
    int const rank = team.team_rank();
    auto const source = tiles_of(first_tile);
    PackType first_packs[packs_in_flight];
    load_packs(first_packs, source, rank);
    std::uint32_t const first_chunk = layer.chunks_of(first_slice * slice_width).first;
    std::uint32_t const last_chunk = layer.chunks_of((end_of_slices - 1) * slice_width).second;
    Stages const stages(layer, first_chunk, last_chunk);
    Pipeline pipeline;
    if (stage_chunks > 0 && first_chunk < last_chunk) pipeline.start(team, scratch.stages, stages);
    store_packs(first_packs, scratch.inputs, source, rank);
    for (int pack = rank + packs_in_flight * team_size; pack < num_packs(source); pack += packs_in_flight * team_size) {
      PackType packs[packs_in_flight];
      load_packs(packs, source, pack);
      store_packs(packs, scratch.inputs, source, pack);
    }
    Own const own = own_part(rank, scratch, first_tile);
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    ArrayView<std::byte const> in_scratch;
    int stage = -1; // in scratch
    for (int slice = first_slice; slice < end_of_slices; ++slice) {
      auto const chunks = layer.chunks_of(slice * slice_width);
      Output const output = output_of(slice, own);
      Sums sums;
      sums.clear_sums();
      if constexpr (stage_chunks == 0) {
        int const count = static_cast<int>(chunks.second - chunks.first);
        if (output.exists) add_chunks(sums, layer, static_cast<int>(chunks.first), count, own);
      } else {
        int chunk = static_cast<int>(chunks.first - first_chunk);
        int const end = static_cast<int>(chunks.second - first_chunk);
        while (chunk < end) {
          if (chunk / stage_chunks != stage) in_scratch = pipeline.await(team, scratch.stages, stages, ++stage);
          int const end_of_stage = (stage + 1) * stage_chunks;
          int const last = end < end_of_stage ? end : end_of_stage;
          Edges const edges{layer.parameters, layer.slice_chunks, Stages::indices_in(in_scratch),
                            Stages::weights_in(in_scratch), 0};
          if (output.exists) add_chunks(sums, edges, chunk - stage * stage_chunks, last - chunk, own);
          chunk = last;
        }
      }
      if (output.exists) hand_over(sums, output, own, seen);
    }
    if (own.computes && pass.live_stamps.data() != nullptr)
      stamp_live<Tile>(seen, pass.live_stamps, own.tile, own.lane, pass.stamp);
  }

  /// An output of a thread, loaded before its edges are.
  struct Output {
    bool exists;
    int number;
    typename Sums::Neurons neuron;
    double bias;
  };

  KOKKOS_FORCEINLINE_FUNCTION Output output_of(int slice, Own const& own) const {
    int const output = slice * slice_width + own.output;
    bool const exists = own.computes && output < layer.parameters.num_outputs;
    int const known = exists ? output : 0;
    return {exists, output, Sums::neurons_of(layer.parameters, known), layer.parameters.bias_of(known)};
  }

  KOKKOS_FORCEINLINE_FUNCTION void hand_over(Sums& sums, Output const& output, Own const& own,
                                             typename Tile::Seen (&seen)[Tile::packs_per_lane]) const {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      finish(sums.sum[0][k], output.bias, layer.parameters.bounds);
      see(seen[k], sums.sum[0][k]);
    }
    sums.store(layer.parameters, output.number, output.neuron,
               tile_of(pass.next, own.tile, layer.parameters.num_outputs, num_samples), own.lane);
  }

  using PackType = typename Tile::PackType;

  /// The activations of a team's tiles.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar const> tiles_of(int first_tile) const {
    int const tiles_left = num_tiles(pass.max_samples, num_samples) - first_tile;
    std::size_t const tile_size = static_cast<std::size_t>(layer.parameters.num_inputs) * num_samples;
    return part_of(pass.previous, static_cast<std::size_t>(first_tile) * tile_size,
                   static_cast<std::size_t>(tiles_left < tiles_per_team ? tiles_left : tiles_per_team) * tile_size);
  }

  KOKKOS_FORCEINLINE_FUNCTION static int num_packs(ArrayView<Scalar const> const& source) {
    return static_cast<int>(source.size()) / Tile::pack_width;
  }

  /// Loads, and stores in scratch, packs `first`, first + team_size and so on.
  KOKKOS_FORCEINLINE_FUNCTION static void load_packs(PackType (&packs)[packs_in_flight],
                                                     ArrayView<Scalar const> const& source, int first) {
    VARVE_UNROLL
    for (int i = 0; i < packs_in_flight; ++i) {
      if (first + i * team_size < num_packs(source)) copy(packs[i], piece_of<PackType>(source, first + i * team_size));
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION static void store_packs(PackType const (&packs)[packs_in_flight],
                                                      ArrayView<Scalar> const& inputs,
                                                      ArrayView<Scalar const> const& source, int first) {
    VARVE_UNROLL
    for (int i = 0; i < packs_in_flight; ++i) {
      if (first + i * team_size < num_packs(source)) copy(piece_of<PackType>(inputs, first + i * team_size), packs[i]);
    }
  }

  using Inputs = typename Edges::ChunkInputs;

  /// The weights of a chunk of an output and the activations that its edges read.
  struct Operands {
    static constexpr std::uint32_t pack_bytes = sizeof(PackType);
    static constexpr std::uint32_t line_bytes = num_samples * sizeof(Scalar);
    Scalar weights[Format::chunk_size];
    PackType values[Format::chunk_size][Tile::packs_per_lane];

    KOKKOS_FORCEINLINE_FUNCTION void load(Edges const& edges, int chunk, Inputs const& inputs, Own const& own) {
      VARVE_UNROLL
      for (int edge = 0; edge < Format::chunk_size; ++edge) {
        std::uint32_t input = inputs.of(edge);
        hold(input); // else its place would take three instructions in place of one
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k)
          copy(values[edge][k],
               piece_at_byte<PackType const>(
                   own.inputs, own.first_byte + input * line_bytes + k * Tile::num_lanes * pack_bytes));
      }
      edges.load_weights(weights, own.output, static_cast<std::uint32_t>(chunk));
      VARVE_UNROLL
      for (int edge = 0; edge < Format::chunk_size; ++edge) {
        hold(weights[edge]);
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k)
          for (auto& value : values[edge][k].lane) hold(value);
      }
    }
  };

  /// Adds the products of `count` chunks to a thread's sums. The chain of a chunk takes as long as a load from scratch:
  /// so the operands of the next chunk, and the inputs of the one after it, are on their way meanwhile. Two sets of
  /// operands alternate, as a copy of one would wait for its loads.
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunks(Sums& sums, Edges const& edges, int first, int count,
                                                     Own const& own) {
    if (count == 0) return;
    int const last = first + count - 1;
    auto const within = [&](int chunk) { return chunk < last ? chunk : last; };
    auto const inputs_of = [&](int chunk) {
      auto inputs = edges.inputs_of(own.output, static_cast<std::uint32_t>(within(chunk)));
      for (auto& word : inputs.words) hold(word);
      return inputs;
    };
    Operands even;
    Operands odd;
    even.load(edges, first, inputs_of(first), own);
    Inputs inputs = inputs_of(first + 1);
    int chunk = first;
    for (; chunk < last; chunk += 2) {
      odd.load(edges, chunk + 1, inputs, own);
      inputs = inputs_of(chunk + 2);
      add_products(sums, even);
      even.load(edges, within(chunk + 2), inputs, own);
      inputs = inputs_of(chunk + 3);
      add_products(sums, odd);
    }
    if (chunk == last) add_products(sums, even);
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_products(Sums& sums, Operands const& operands) {
    VARVE_UNROLL
    for (int edge = 0; edge < Format::chunk_size; ++edge) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        add_product(sums.sum[0][k], operands.weights[edge], operands.values[edge][k]);
    }
  }
};

/// Launches SpreadForward. Samples lie in tiles of Tile::num_samples. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void spread_forward(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
  using Kernel = SpreadForward<ExecutionSpace, Format, Tile>;
  using Tune = typename Kernel::Tune;
  auto const edges = layer.edges();
  int const tiles = num_tiles(pass.max_samples, Tile::num_samples);
  int const slices = (edges.parameters.num_outputs + Kernel::slice_width - 1) / Kernel::slice_width;
  if (tiles == 0 || slices == 0) return;
  auto const bytes = [&](int num_tiles) {
    return static_cast<double>(Kernel::scratch_bytes(edges.parameters.num_inputs, num_tiles));
  };
  double const bytes_of_tile = std::max(1.0, bytes(1) - bytes(0));
  double const room = static_cast<double>(max_team_scratch<ExecutionSpace>()) - 1024.0 - bytes(0);
  auto const share = spread_share(tiles, slices, Tune::spread_teams(num_processors(space)), bytes_of_tile,
                                  static_cast<double>(layer.bytes()) / slices,
                                  static_cast<int>(std::clamp(room / bytes_of_tile, 1.0, double{Kernel::most_tiles})));
  int const groups = (tiles + share.tiles - 1) / share.tiles;
  int const parts = (slices + share.slices - 1) / share.slices;
  typename Kernel::Policy policy(space, groups * parts, +Kernel::team_size);
  policy.set_scratch_size(Tune::spread_level, Kokkos::PerTeam(static_cast<int>(bytes(share.tiles)) + 128));
  launch_teams("varve::spread_forward", policy, Kernel{edges, pass, share.tiles, share.slices});
}

} // namespace varve
