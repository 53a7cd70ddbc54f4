#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// One layer of few samples, spread over the device: a team copies a tile's activations into scratch and computes some
/// of the outputs, so that a layer of one tile keeps many teams at work. For inputs that fit team scratch.
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j))
/// league: tiles x parts of the outputs; team threads: lanes of the tile x outputs. The longest chain decides the time
/// of a layer, so a thread keeps the loads of chunks_ahead chunks of edges in flight. Reads the weights once per tile.
/// Bound by latency: of the launch, of the loads of tile and edges, and of the chain.
template <class ExecutionSpace, class Format, class Tile>
struct SpreadForward {
  static_assert(Format::block_outputs == 1);
  using Scalar = typename Tile::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::SpreadBounds>;
  using Member = typename Policy::member_type;
  using Sums = BlockSums<Tile, 1>;
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int chunks_ahead = Tune::spread_chunks_ahead;
  static constexpr int outputs_at_a_time = team_size > Tile::num_lanes ? team_size / Tile::num_lanes : 1;
  static constexpr int packs_in_flight = 8;

  typename Format::Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of Tile::num_samples
  int outputs_per_team;

  /// Team scratch in bytes.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int num_inputs) {
    return static_cast<std::size_t>(num_inputs) * num_samples * sizeof(Scalar);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const& parameters = layer.parameters;
    int const parts = (parameters.num_outputs + outputs_per_team - 1) / outputs_per_team;
    int const tile = team.league_rank() / parts;
    if (tile * num_samples >= pass.num_samples(0)) return;
    auto const inputs = ScratchArrays(team, Tune::spread_level, scratch_bytes(parameters.num_inputs), 64)
                            .template take<Scalar>(static_cast<std::size_t>(parameters.num_inputs) * num_samples);
    load(team, tile_of(pass.previous, tile, parameters.num_inputs, num_samples), inputs);
    team.team_barrier();
    auto const outputs = tile_of(pass.next, tile, parameters.num_outputs, num_samples);
    int const first = team.league_rank() % parts * outputs_per_team;
    int const last =
        first + outputs_per_team < parameters.num_outputs ? first + outputs_per_team : parameters.num_outputs;
    int const lane = team.team_rank() % Tile::num_lanes;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    for (int output = first + team.team_rank() / Tile::num_lanes; output < last; output += outputs_at_a_time) {
      Sums sums;
      accumulate(sums, output, inputs, lane);
      sums.finish_block(parameters, output, seen);
      sums.store(parameters, output, outputs, lane);
    }
    stamp_live<Tile>(seen, pass.live_stamps, tile, lane, pass.stamp);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void load(Member const& team, ArrayView<Scalar const> const& source,
                                        ArrayView<Scalar> const& inputs) const {
    using PackType = typename Tile::PackType;
    int const num_packs = layer.parameters.num_inputs * (num_samples / Tile::pack_width);
    for (int first = team.team_rank(); first < num_packs; first += packs_in_flight * team_size) {
      PackType packs[packs_in_flight]; // all loads come before the first store
      VARVE_UNROLL
      for (int i = 0; i < packs_in_flight; ++i) {
        if (first + i * team_size < num_packs) copy(packs[i], piece_of<PackType>(source, first + i * team_size));
      }
      VARVE_UNROLL
      for (int i = 0; i < packs_in_flight; ++i) {
        if (first + i * team_size < num_packs) copy(piece_of<PackType>(inputs, first + i * team_size), packs[i]);
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void accumulate(Sums& sums, int output, ArrayView<Scalar const> const& inputs,
                                              int lane) const {
    sums.clear_sums();
    auto const [first, last] = layer.chunks_of(output);
    for (auto chunk = first; chunk < last; chunk += chunks_ahead) {
      typename Format::Edges::Chunk chunks[chunks_ahead];
      VARVE_UNROLL
      for (int i = 0; i < chunks_ahead; ++i) {
        if (chunk + static_cast<unsigned>(i) < last)
          chunks[i] = layer.chunk_of(output, chunk + static_cast<unsigned>(i));
      }
      VARVE_UNROLL
      for (int i = 0; i < chunks_ahead; ++i) {
        if (chunk + static_cast<unsigned>(i) < last) add_chunk(sums, chunks[i], inputs, lane);
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(Sums& sums, typename Format::Edges::Chunk const& chunk,
                                                    ArrayView<Scalar const> const& inputs, int lane) {
    VARVE_UNROLL
    for (int edge = 0; edge < Format::chunk_size; ++edge) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        add_product(sums.sum[0][k], chunk.weights[edge],
                    Tile::pack_at(inputs, static_cast<int>(chunk.inputs[edge]), lane, k));
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
  int const num_outputs = edges.parameters.num_outputs;
  if (tiles == 0 || num_outputs == 0) return;
  int const wanted_parts = (Tune::spread_teams(num_processors(space)) + tiles - 1) / tiles;
  constexpr int at_a_time = Kernel::outputs_at_a_time;
  int const outputs_per_team = (num_outputs / wanted_parts + at_a_time) / at_a_time * at_a_time;
  int const parts = (num_outputs + outputs_per_team - 1) / outputs_per_team;
  typename Kernel::Policy policy(space, tiles * parts, +Kernel::team_size);
  policy.set_scratch_size(Tune::spread_level,
                          Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes(edges.parameters.num_inputs)) + 128));
  launch_teams("varve::spread_forward", policy, Kernel{edges, pass, outputs_per_team});
}

} // namespace varve
