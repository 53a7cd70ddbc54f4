#pragma once

#include "core/execution.hpp"
#include "core/large_scratch.hpp"
#include "kernels/split_output_operands.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace varve {

/// Work of a team of SplitOutputForward: some tiles, computed in parallel, times some slices, one after another.
struct SpreadShare {
  int tiles;
  int slices;
};

/// The share of each team if num_teams teams divide the work. Of all shares of one size, a team copies least to scratch
/// if the bytes of activations equal the bytes of edges. At most `max_tiles` tiles fit a team.
inline SpreadShare spread_share(int num_tiles, int num_slices, int num_teams, double bytes_of_tile,
                                double bytes_of_slice, int max_tiles) {
  double const size = std::max(1.0, static_cast<double>(num_tiles) * num_slices / num_teams);
  double const wanted = std::clamp(std::sqrt(size * bytes_of_slice / bytes_of_tile), 1.0, size);
  int const groups_wanted = std::max(1, static_cast<int>(std::lround(num_tiles / wanted)));
  int const tiles = std::min(max_tiles, (num_tiles + groups_wanted - 1) / groups_wanted);
  int const groups = (num_tiles + tiles - 1) / tiles;
  return {tiles, std::max(1, static_cast<int>(std::ceil(size * groups / num_tiles)))};
}

/// Where the chains of SplitOutputForward find their operands on a device.
template <class ExecutionSpace, class Format, class Tile, class Tune>
using SpreadOperands =
    std::conditional_t<Tune::spread_stage_chunks == 0, OperandsInMemory<ExecutionSpace, Format, Tile, Tune>,
                       std::conditional_t<Tile::num_samples == 1, GatheredOperands<ExecutionSpace, Format, Tile, Tune>,
                                          OperandsInStages<ExecutionSpace, Format, Tile, Tune>>>;

/// One layer of few samples, spread over the device: a team copies the activations of some tiles into scratch and
/// computes some slices of outputs, so that a layer of one tile occupies many teams. For inputs that fit team scratch.
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j))
/// league: groups of tiles x parts of the slices; team threads: lanes of a tile x outputs of a slice x tiles. The
/// longest chain of fma determines the time of a layer, and few threads compute chains. So all threads of the team copy
/// operands to scratch (SpreadOperands), some stages ahead, and a chain waits for scratch only. Reads the weights once
/// per group of tiles. Bound by latency: of the launch, of the loads of tiles and first edges, and of the chain.
template <class ExecutionSpace, class Format, class Tile>
struct SplitOutputForward {
  using Scalar = typename Tile::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  static_assert(Format::block_outputs == 1 && Format::slice_width == Tune::slice_width &&
                Format::chunk_size == Tune::chunk_size);
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::SpreadBounds>;
  using Member = typename Policy::member_type;
  using Sums = BlockSums<Tile, 1>;
  using Edges = typename Format::Edges;
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int slice_width = Format::slice_width;
  static constexpr int threads_per_tile = slice_width * Tile::num_lanes;
  static constexpr int packs_in_flight = 8;
  using Operands = SpreadOperands<ExecutionSpace, Format, Tile, Tune>;
  using Arrays = SpreadArrays<Scalar>;
  static constexpr int max_tiles = Operands::max_tiles;

  Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of Tile::num_samples
  int tiles_per_team;
  int slices_per_team;
  int num_parts; ///< parts of the slices

  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int num_inputs, int num_tiles) {
    return Operands::stages_size +
           static_cast<std::size_t>(num_tiles) * (Operands::values_per_tile + tile_size(num_inputs)) * sizeof(Scalar);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_slices = (layer.parameters.num_outputs + slice_width - 1) / slice_width;
    int const group = team.league_rank() / num_parts;
    int const first_tile = group * tiles_per_team;
    int const first_slice = (team.league_rank() - group * num_parts) * slices_per_team;
    int const end_of_slices = first_slice + slices_per_team < num_slices ? first_slice + slices_per_team : num_slices;
    forward(team, first_tile, first_slice, end_of_slices);
  }

private:
  using PackType = typename Tile::PackType;

  KOKKOS_FORCEINLINE_FUNCTION static std::size_t tile_size(int num_inputs) {
    return static_cast<std::size_t>(num_inputs) * num_samples;
  }

  KOKKOS_FORCEINLINE_FUNCTION Arrays arrays_of(Member const& team) const {
    int const num_inputs = layer.parameters.num_inputs;
    auto const num_tiles = static_cast<std::size_t>(tiles_per_team);
    ScratchArrays scratch(team, Tune::spread_level, scratch_bytes(num_inputs, tiles_per_team), 64);
    auto const stages = scratch.template take<std::byte>(Operands::stages_size);
    auto const values = scratch.template take<Scalar>(num_tiles * Operands::values_per_tile);
    return {stages, values, scratch.template take<Scalar>(num_tiles * tile_size(num_inputs))};
  }

  /// A thread's part in the work of its team.
  struct ThreadShare {
    bool computes; ///< the thread has a tile with samples
    int tile;
    ChainPlace chain;
  };

  KOKKOS_FORCEINLINE_FUNCTION ThreadShare share_of_thread(int rank, int first_tile, int count) const {
    int const tile = rank / threads_per_tile < tiles_per_team ? rank / threads_per_tile : 0;
    int const lane = rank % Tile::num_lanes;
    bool const has_samples = (first_tile + tile) * num_samples < count;
    auto first = static_cast<std::uint32_t>(
        (tile * layer.parameters.num_inputs * num_samples + Tile::sample_of(lane, 0)) * sizeof(Scalar));
    keep_in_register(first); // computed once
    return {has_samples && tile == rank / threads_per_tile,
            first_tile + tile,
            {tile, rank / Tile::num_lanes % slice_width, lane, first}};
  }

  /// Computes slices of outputs for the tiles of a team. All loads without dependences are issued at once: the tiles
  /// (also those without samples), the first edges, and the number of samples.
  KOKKOS_FORCEINLINE_FUNCTION void forward(Member const& team, int first_tile, int first_slice,
                                           int end_of_slices) const {
    int const rank = team.team_rank();
    int count = pass.num_samples(0);
    keep_in_register(count);
    auto const arrays = arrays_of(team);
    auto const source = tiles_of(first_tile);
    PackType packs[packs_in_flight];
    load_packs(packs, source, rank);
    auto const first_chunk = layer.chunks_of(first_slice * slice_width).first;
    Operands operands(team, layer, first_chunk, layer.chunks_of((end_of_slices - 1) * slice_width).second, arrays);
    store_packs(packs, arrays.tiles, source, rank);
    for (int pack = rank + packs_in_flight * team_size; pack < num_packs(source); pack += packs_in_flight * team_size) {
      load_packs(packs, source, pack);
      store_packs(packs, arrays.tiles, source, pack);
    }
    ThreadShare const own = share_of_thread(rank, first_tile, count);
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    for (int slice = first_slice; slice < end_of_slices; ++slice) {
      auto const chunks = layer.chunks_of(slice * slice_width);
      Output const output = output_of(slice, own);
      Sums sums;
      sums.clear_sums();
      int chunk = static_cast<int>(chunks.first - first_chunk);
      int const end = static_cast<int>(chunks.second - first_chunk);
      while (chunk < end) {
        int const last = operands.stage(team, chunk, end);
        int const first_of_part = operands.first_of_part();
        if (output.exists)
          add_chunks(sums, operands.part(), own.chain, chunk - first_of_part, last - 1 - first_of_part);
        chunk = last;
      }
      if (output.exists) hand_over(sums, output, own, seen);
    }
    if (own.computes && pass.live_stamps.data() != nullptr)
      stamp_live<Tile>(seen, pass.live_stamps, own.tile, own.chain.lane, pass.stamp);
  }

  /// A thread's output, loaded before its edges.
  struct Output {
    bool exists;
    int number;
    typename Sums::Neurons neuron;
    double bias;
  };

  KOKKOS_FORCEINLINE_FUNCTION Output output_of(int slice, ThreadShare const& own) const {
    int const output = slice * slice_width + own.chain.output;
    bool const exists = own.computes && output < layer.parameters.num_outputs;
    int const known = exists ? output : 0;
    return {exists, output, Sums::neurons_of(layer.parameters, known), layer.parameters.bias_of(known)};
  }

  KOKKOS_FORCEINLINE_FUNCTION void hand_over(Sums& sums, Output const& output, ThreadShare const& own,
                                             typename Tile::Seen (&seen)[Tile::packs_per_lane]) const {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      finish(sums.sum[0][k], output.bias, layer.parameters.bounds);
      see(seen[k], sums.sum[0][k]);
    }
    sums.store(layer.parameters, output.number, output.neuron,
               tile_of(pass.next, own.tile, layer.parameters.num_outputs, num_samples), own.chain.lane);
  }

  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar const> tiles_of(int first_tile) const {
    int const tiles_left = num_tiles(pass.max_samples, num_samples) - first_tile;
    std::size_t const size = tile_size(layer.parameters.num_inputs);
    return part_of(pass.previous, static_cast<std::size_t>(first_tile) * size,
                   static_cast<std::size_t>(tiles_left < tiles_per_team ? tiles_left : tiles_per_team) * size);
  }

  KOKKOS_FORCEINLINE_FUNCTION static int num_packs(ArrayView<Scalar const> const& source) {
    return static_cast<int>(source.size()) / Tile::pack_width;
  }

  /// Loads packs `first`, first + team_size, ... and stores them in scratch.
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

  using OfChunk = ChunkOperands<Format, Tile>;

  /// Adds the products of the chunks [first, last] of a part to a thread's sums. The chain of a chunk takes as long as
  /// a load from scratch, so the operands of the next chunk and the inputs of the one after it are in flight meanwhile.
  /// Two sets of operands alternate, because a copy of one would wait for its loads.
  template <class Part>
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunks(Sums& sums, Part const& part, ChainPlace const& place, int first,
                                                     int last) {
    auto const within = [&](int chunk) { return chunk < last ? chunk : last; };
    OfChunk even;
    OfChunk odd;
    part.load(even, place, first, part.inputs_of(place, first));
    auto inputs = part.inputs_of(place, within(first + 1));
    int chunk = first;
    for (; chunk < last; chunk += 2) {
      part.load(odd, place, chunk + 1, inputs);
      inputs = part.inputs_of(place, within(chunk + 2));
      add_products(sums, even);
      part.load(even, place, within(chunk + 2), inputs);
      inputs = part.inputs_of(place, within(chunk + 3));
      add_products(sums, odd);
    }
    if (chunk == last) add_products(sums, even);
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_products(Sums& sums, OfChunk const& operands) {
    VARVE_UNROLL
    for (int edge = 0; edge < Format::chunk_size; ++edge) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        add_product(sums.sum[0][k], operands.weights[edge], operands.values[edge][k]);
    }
  }
};

/// Launches SplitOutputForward. Samples are in tiles of Tile::num_samples. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void split_output_forward(ExecutionSpace const& space, Format const& layer,
                          LayerPass<typename Tile::Scalar> const& pass) {
  using Kernel = SplitOutputForward<ExecutionSpace, Format, Tile>;
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
                                  static_cast<double>(bytes_on_device(layer)) / slices,
                                  static_cast<int>(std::clamp(room / bytes_of_tile, 1.0, double{Kernel::max_tiles})));
  int const groups = (tiles + share.tiles - 1) / share.tiles;
  int const num_parts = (slices + share.slices - 1) / share.slices;
  launch_teams("varve::split_output_forward", typename Kernel::Policy(space, groups * num_parts, +Kernel::team_size),
               Kernel{edges, pass, share.tiles, share.slices, num_parts}, Tune::spread_level,
               static_cast<std::size_t>(bytes(share.tiles)) + 128);
}

} // namespace varve
