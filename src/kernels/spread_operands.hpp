#pragma once

#include "core/execution.hpp"
#include "core/held.hpp"
#include "kernels/chunk_pipeline.hpp"
#include "kernels/edge_stages.hpp"
#include "kernels/tile.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

/// Where the chains of SpreadForward find their operands: in memory (hosts), or in team scratch, to which the team
/// brings them in stages: activations by the indices of edges, or gathered by other threads. Chunks are counted from
/// the first one of the team's slices.
namespace varve {

/// A thread's chain within its team.
struct ChainPlace {
  int tile;   ///< of the team's tiles
  int output; ///< of each slice
  int lane;
  std::uint32_t first_byte; ///< of its samples of input 0 in the team's tiles
};

/// The weights of a chunk of an output and the activations that its edges read, in registers.
template <class Format, class Tile>
struct ChunkOperands {
  typename Tile::Scalar weights[Format::chunk_size];
  typename Tile::PackType values[Format::chunk_size][Tile::packs_per_lane];

  /// Has all of them under way from here on.
  KOKKOS_FORCEINLINE_FUNCTION void hold_all() {
    VARVE_UNROLL
    for (int edge = 0; edge < Format::chunk_size; ++edge) {
      hold(weights[edge]);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        for (auto& value : values[edge][k].lane) hold(value);
    }
  }
};

/// Operands by the indices of edges that lie in memory or in scratch.
template <class Format, class Tile>
struct IndexedOperands {
  using Scalar = typename Tile::Scalar;
  using PackType = typename Tile::PackType;
  using Edges = typename Format::Edges;
  using Inputs = typename Edges::ChunkInputs;

  Edges edges;
  ArrayView<Scalar const> tiles; ///< the activations of the team's tiles, in scratch

  KOKKOS_FORCEINLINE_FUNCTION Inputs inputs_of(ChainPlace const& place, int chunk) const {
    auto inputs = edges.inputs_of(place.output, static_cast<std::uint32_t>(chunk));
    for (auto& word : inputs.words) hold(word);
    return inputs;
  }

  KOKKOS_FORCEINLINE_FUNCTION void load(ChunkOperands<Format, Tile>& operands, ChainPlace const& place, int chunk,
                                        Inputs const& inputs) const {
    constexpr std::uint32_t line_bytes = Tile::num_samples * sizeof(Scalar);
    constexpr std::uint32_t pack_bytes = sizeof(PackType);
    VARVE_UNROLL
    for (int edge = 0; edge < Format::chunk_size; ++edge) {
      std::uint32_t input = inputs.of(edge);
      hold(input); // else its place would take three instructions in place of one
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        copy(operands.values[edge][k],
             piece_at_byte<PackType const>(tiles, place.first_byte + input * line_bytes +
                                                      static_cast<std::uint32_t>(k * Tile::num_lanes) * pack_bytes));
    }
    edges.load_weights(operands.weights, place.output, static_cast<std::uint32_t>(chunk));
    operands.hold_all();
  }
};

/// The arrays of a team in scratch.
template <class Scalar>
struct SpreadArrays {
  ArrayView<std::byte> stages; ///< of edges
  ArrayView<Scalar> values;    ///< gathered activations
  ArrayView<Scalar> tiles;     ///< [tile][input][sample]
};

/// Hosts: edges come through the caches.
template <class ExecutionSpace, class Format, class Tile, class Tune>
class OperandsInMemory {
public:
  using Edges = typename Format::Edges;
  using Arrays = SpreadArrays<typename Tile::Scalar>;
  static constexpr int most_tiles = Tune::spread_team_size / (Format::slice_width * Tile::num_lanes);
  static constexpr int stages_size = 0;     ///< bytes
  static constexpr int values_per_tile = 0; ///< gathered ones, in scratch

  /// For the chunks [first, last) of a layer. Begins to bring them.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION OperandsInMemory(Member const& /*team*/, Edges const& layer, std::uint32_t first,
                                               std::uint32_t /*last*/, Arrays const& arrays)
      : first_(static_cast<int>(first)), part_{layer, arrays.tiles} {}

  /// Waits until chunk `chunk` is there. Chunks come in order, to all threads of the team. Returns the last chunk of
  /// those up to `end` that are there, plus 1.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION int bring(Member const& /*team*/, int /*chunk*/, int end) {
    return end;
  }

  /// What is there, and the number of its first chunk.
  KOKKOS_FORCEINLINE_FUNCTION auto const& part() const { return part_; }
  KOKKOS_FORCEINLINE_FUNCTION int first_of_part() const { return -first_; }

private:
  int first_;
  IndexedOperands<Format, Tile> part_;
};

/// How stages of edges come to scratch.
template <class ExecutionSpace, class Scalar, class Index, class Tune, int Kept>
struct SpreadPipeline {
  using Stages = EdgeStages<Scalar, Index, Tune::slice_width * Tune::chunk_size, Tune::spread_stage_chunks,
                            Tune::spread_team_size>;
  using Type = ChunkPipeline<ExecutionSpace, std::byte, Stages, Tune::spread_team_size, Tune::spread_stages, Kept>;
};

/// GPUs: stages of edges are on their way to scratch, and the chains take activations by their indices.
template <class ExecutionSpace, class Format, class Tile, class Tune>
class OperandsInStages {
public:
  using Edges = typename Format::Edges;
  using Arrays = SpreadArrays<typename Tile::Scalar>;
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int stage_chunks = Tune::spread_stage_chunks;
  using Travel = SpreadPipeline<ExecutionSpace, typename Tile::Scalar, typename Format::Index, Tune, 0>;
  using Stages = typename Travel::Stages;
  using Pipeline = typename Travel::Type;
  static constexpr int most_tiles = team_size / (Format::slice_width * Tile::num_lanes);
  static constexpr int stages_size = Pipeline::size;
  static constexpr int values_per_tile = 0;

  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION OperandsInStages(Member const& team, Edges const& layer, std::uint32_t first,
                                               std::uint32_t last, Arrays const& arrays)
      : arrays_(arrays), stages_(layer, first, last) {
    if (first < last) pipeline_.start(team, arrays.stages, stages_);
  }

  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION int bring(Member const& team, int chunk, int end) {
    if (chunk / stage_chunks != stage_) pipeline_.await(team, arrays_.stages, stages_, ++stage_);
    int const end_of_stage = (stage_ + 1) * stage_chunks;
    return end < end_of_stage ? end : end_of_stage;
  }

  /// Made anew from the address of scratch: of arrays that may lie in memory, as those of a layer do, nvcc would load
  /// through addresses of any kind, which takes longer.
  KOKKOS_FORCEINLINE_FUNCTION IndexedOperands<Format, Tile> part() const {
    ArrayView<std::byte const> const stage = Pipeline::buffer_of(arrays_.stages, stage_);
    Edges edges{};
    edges.indices = Stages::indices_in(stage);
    edges.weights = Stages::weights_in(stage);
    return {edges, arrays_.tiles};
  }
  KOKKOS_FORCEINLINE_FUNCTION int first_of_part() const { return stage_ * stage_chunks; }

private:
  Arrays arrays_;
  Stages stages_;
  Pipeline pipeline_;
  int stage_ = -1; ///< in scratch
};

/// Gathered activations of a tile in scratch: those of the present stage and of the next one.
template <class Stages>
constexpr int gathered_values() {
  return 2 * Stages::num_edges;
}

/// Tiles of one sample whose chains are in one warp.
template <class Tune>
constexpr int most_gathered_tiles() {
  return 32 / Tune::slice_width;
}

/// GPUs, tiles of one sample: a warp has the chains of all tiles; the other threads gather the activations of the next
/// stage, so that a chain loads neighbouring operands and computes no addresses. (A warp issues an instruction for
/// integers every other cycle: addresses took two thirds of the time of a chain.)
template <class ExecutionSpace, class Format, class Tile, class Tune>
class GatheredOperands {
public:
  using Scalar = typename Tile::Scalar;
  using Edges = typename Format::Edges;
  using Arrays = SpreadArrays<Scalar>;
  static_assert(Tile::num_samples == 1);
  static constexpr int slice_width = Format::slice_width;
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int stage_chunks = Tune::spread_stage_chunks;
  static constexpr int most_tiles = most_gathered_tiles<Tune>();
  static constexpr int first_gatherer = most_tiles * slice_width;
  using Travel = SpreadPipeline<ExecutionSpace, Scalar, typename Format::Index, Tune, 1>;
  using Stages = typename Travel::Stages;
  using Pipeline = typename Travel::Type;
  static constexpr int stages_size = Pipeline::size;
  static constexpr int values_per_tile = gathered_values<Stages>();

  /// Operands of a stage: weights, and activations in the order of weights.
  struct Part {
    struct Inputs {};
    ArrayView<Scalar const> weights;
    ArrayView<Scalar const> values; ///< [tile][edge]

    KOKKOS_FORCEINLINE_FUNCTION Inputs inputs_of(ChainPlace const& /*place*/, int /*chunk*/) const { return {}; }
    KOKKOS_FORCEINLINE_FUNCTION void load(ChunkOperands<Format, Tile>& operands, ChainPlace const& place, int chunk,
                                          Inputs const& /*inputs*/) const {
      auto const own = part_of(values, static_cast<std::size_t>(place.tile * Stages::num_edges), Stages::num_edges);
      Scalar loaded[Format::chunk_size];
      Edges::load_chunk(operands.weights, weights, place.output, static_cast<std::uint32_t>(chunk));
      Edges::load_chunk(loaded, own, place.output, static_cast<std::uint32_t>(chunk));
      VARVE_UNROLL
      for (int edge = 0; edge < Format::chunk_size; ++edge) operands.values[edge][0].lane[0] = loaded[edge];
      operands.hold_all();
    }
  };

  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION GatheredOperands(Member const& team, Edges const& layer, std::uint32_t first,
                                               std::uint32_t last, Arrays const& arrays)
      : arrays_(arrays),
        stages_(layer, first, last),
        num_tiles_(static_cast<int>(arrays.values.size()) / values_per_tile),
        num_inputs_(layer.parameters.num_inputs),
        num_stages_((static_cast<int>(last - first) + stage_chunks - 1) / stage_chunks) {
    if (first < last) pipeline_.start(team, arrays.stages, stages_);
  }

  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION int bring(Member const& team, int chunk, int end) {
    if (chunk / stage_chunks != stage_) {
      if (stage_ < 0) gather(team, 0);
      ++stage_;
      gather(team, stage_ + 1); // its barrier also ends the gathering of the present stage
      part_ = {Stages::weights_in(Pipeline::buffer_of(arrays_.stages, stage_)), values_of(stage_)};
    }
    int const end_of_stage = (stage_ + 1) * stage_chunks;
    return end < end_of_stage ? end : end_of_stage;
  }

  KOKKOS_FORCEINLINE_FUNCTION Part const& part() const { return part_; }
  KOKKOS_FORCEINLINE_FUNCTION int first_of_part() const { return stage_ * stage_chunks; }

private:
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar> values_of(int stage) const {
    auto const count = static_cast<std::size_t>(num_tiles_ * Stages::num_edges);
    return part_of(arrays_.values, static_cast<std::size_t>(stage % 2) * count, count);
  }

  /// Waits for a stage and gathers the activations of its edges.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void gather(Member const& team, int stage) {
    Edges edges{};
    edges.indices = Stages::indices_in(pipeline_.await(team, arrays_.stages, stages_, stage));
    int const rank = team.team_rank() - first_gatherer;
    if (rank < 0 || stage >= num_stages_) return;
    auto const values = values_of(stage);
    for (int item = rank; item < stage_chunks * slice_width; item += team_size - first_gatherer) {
      int const output = item % slice_width;
      auto const chunk = static_cast<std::uint32_t>(item / slice_width);
      auto const inputs = edges.inputs_of(output, chunk);
      for (int tile = 0; tile < num_tiles_; ++tile) {
        auto const from = part_of(arrays_.tiles, static_cast<std::size_t>(tile * num_inputs_));
        Scalar gathered[Format::chunk_size];
        VARVE_UNROLL
        for (int edge = 0; edge < Format::chunk_size; ++edge) gathered[edge] = from(inputs.of(edge));
        auto const to = part_of(values, static_cast<std::size_t>(tile * Stages::num_edges), Stages::num_edges);
        Edges::store_chunk(to, gathered, output, chunk);
      }
    }
  }

  Arrays arrays_;
  Stages stages_;
  Pipeline pipeline_;
  int num_tiles_, num_inputs_, num_stages_;
  int stage_ = -1; ///< whose activations are gathered
  Part part_;
};

} // namespace varve
