#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "kernels/chunk_pipeline.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace varve {

/// The edges of neighbouring slices of sliced ELL as stages of `StageChunks` chunks, which ChunkPipeline copies to the
/// scratch of a team of TeamSize threads: first the weights of a stage, then its indices. A stage may hold the end of a
/// slice and the beginning of the next one. chunk_edges: edges of a chunk of a slice.
template <class Scalar, class Index, int chunk_edges, int StageChunks, int TeamSize>
struct EdgeStages {
  static constexpr int num_edges = StageChunks * chunk_edges; ///< edges of a stage
  static constexpr int weight_pieces = num_edges * static_cast<int>(sizeof(Scalar)) / 16;
  static constexpr int index_pieces = num_edges * static_cast<int>(sizeof(Index)) / 16;
  static constexpr int num_pieces = weight_pieces + index_pieces;
  static_assert(weight_pieces % TeamSize == 0, "a thread's pieces are all weights or all indices");

  ArrayView<Scalar const> weights; ///< weights of all stages
  ArrayView<Index const> indices;

  /// The chunks [first, last) of a layer.
  template <class Edges>
  KOKKOS_FORCEINLINE_FUNCTION EdgeStages(Edges const& layer, std::uint32_t first, std::uint32_t last) {
    std::size_t const begin = static_cast<std::size_t>(first) * chunk_edges;
    std::size_t const count = static_cast<std::size_t>(last - first) * chunk_edges;
    weights = part_of(layer.weights, begin, count);
    indices = part_of(layer.indices, begin, count);
  }

  /// See ChunkPipeline.
  KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int stage, int first, int rank) const {
    if (first < weight_pieces) return source_piece(weights, place(stage, weight_pieces, first + rank));
    return source_piece(indices, place(stage, index_pieces, first - weight_pieces + rank));
  }

  /// The weights and the indices of a stage in team scratch.
  KOKKOS_FORCEINLINE_FUNCTION static ArrayView<Scalar const> weights_in(ArrayView<std::byte const> const& stage) {
    return array_in<Scalar>(stage, 0, num_edges);
  }
  KOKKOS_FORCEINLINE_FUNCTION static ArrayView<Index const> indices_in(ArrayView<std::byte const> const& stage) {
    return array_in<Index>(stage, num_edges * sizeof(Scalar), num_edges);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t place(int stage, int pieces_per_stage, int piece) {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(pieces_per_stage) +
           static_cast<std::size_t>(piece);
  }
};

// Sources of the operands for the chains of SplitOutputForward: memory (hosts), or team scratch, to which the team
// copies them in stages, as activations with the indices of edges or gathered by other threads. Chunks are numbered
// from the first one of the team's slices.

/// A thread's chain within its team.
struct ChainPlace {
  int tile;   ///< among the team's tiles
  int output; ///< within each slice
  int lane;
  std::uint32_t first_byte; ///< offset of the lane's samples of input 0 in the team's tiles
};

/// The weights of a chunk of an output and the activations that its edges read, in registers.
template <class Format, class Tile>
struct ChunkOperands {
  typename Tile::Scalar weights[Format::chunk_size];
  typename Tile::PackType values[Format::chunk_size][Tile::packs_per_lane];

  /// Forces all loads to be issued before this point.
  KOKKOS_FORCEINLINE_FUNCTION void hold_all() {
    VARVE_UNROLL
    for (int edge = 0; edge < Format::chunk_size; ++edge) {
      keep_in_register(weights[edge]);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k)
        for (auto& value : values[edge][k].lane) keep_in_register(value);
    }
  }
};

/// Operands found by the indices of edges in memory or in scratch.
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
    for (auto& word : inputs.words) keep_in_register(word);
    return inputs;
  }

  KOKKOS_FORCEINLINE_FUNCTION void load(ChunkOperands<Format, Tile>& operands, ChainPlace const& place, int chunk,
                                        Inputs const& inputs) const {
    constexpr std::uint32_t line_bytes = Tile::num_samples * sizeof(Scalar);
    constexpr std::uint32_t pack_bytes = sizeof(PackType);
    VARVE_UNROLL
    for (int edge = 0; edge < Format::chunk_size; ++edge) {
      std::uint32_t input = inputs.of(edge);
      keep_in_register(input); // otherwise its address would take three instructions instead of one
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
  ArrayView<std::byte> stages; ///< stages of edges
  ArrayView<Scalar> values;    ///< gathered activations
  ArrayView<Scalar> tiles;     ///< [tile][input][sample]
};

/// Hosts: edges are read through the caches.
template <class ExecutionSpace, class Format, class Tile, class Tune>
class OperandsInMemory {
public:
  using Edges = typename Format::Edges;
  using Arrays = SpreadArrays<typename Tile::Scalar>;
  static constexpr int max_tiles = Tune::spread_team_size / (Format::slice_width * Tile::num_lanes);
  static constexpr int stages_size = 0;     ///< bytes
  static constexpr int values_per_tile = 0; ///< gathered activations in scratch

  /// For the chunks [first, last) of a layer. Starts the first copies.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION OperandsInMemory(Member const& /*team*/, Edges const& layer, std::uint32_t first,
                                               std::uint32_t /*last*/, Arrays const& arrays)
      : first_(static_cast<int>(first)), part_{layer, arrays.tiles} {}

  /// Waits until chunk `chunk` has arrived. All threads of the team call it, with ascending chunks. Returns the end of
  /// the chunks that have arrived, at most `end`.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION int stage(Member const& /*team*/, int /*chunk*/, int end) {
    return end;
  }

  /// The operands that have arrived, and the number of their first chunk.
  KOKKOS_FORCEINLINE_FUNCTION auto const& part() const { return part_; }
  KOKKOS_FORCEINLINE_FUNCTION int first_of_part() const { return -first_; }

private:
  int first_;
  IndexedOperands<Format, Tile> part_;
};

/// The pipeline that copies stages of edges to scratch.
template <class ExecutionSpace, class Scalar, class Index, class Tune, int Kept>
struct SpreadPipeline {
  using Stages = EdgeStages<Scalar, Index, Tune::slice_width * Tune::chunk_size, Tune::spread_stage_chunks,
                            Tune::spread_team_size>;
  using Type = ChunkPipeline<ExecutionSpace, std::byte, Stages, Tune::spread_team_size, Tune::spread_stages, Kept>;
};

/// GPUs: stages of edges are copied to scratch, and the chains read activations by the indices of edges.
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
  static constexpr int max_tiles = team_size / (Format::slice_width * Tile::num_lanes);
  static constexpr int stages_size = Pipeline::size;
  static constexpr int values_per_tile = 0;

  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION OperandsInStages(Member const& team, Edges const& layer, std::uint32_t first,
                                               std::uint32_t last, Arrays const& arrays)
      : arrays_(arrays), stages_(layer, first, last) {
    if (first < last) pipeline_.start(team, arrays.stages, stages_);
  }

  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION int stage(Member const& team, int chunk, int end) {
    if (chunk / stage_chunks != stage_) pipeline_.await(team, arrays_.stages, stages_, ++stage_);
    int const end_of_stage = (stage_ + 1) * stage_chunks;
    return end < end_of_stage ? end : end_of_stage;
  }

  /// Built from the address of scratch on each call: through arrays that may be in memory, such as a layer's, nvcc
  /// would use generic loads, which take longer.
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
  int stage_ = -1; ///< the stage in scratch
};

/// Number of gathered activations of a tile in scratch: those of the present and the next stage.
template <class Stages>
constexpr int gathered_values() {
  return 2 * Stages::num_edges;
}

/// Most tiles of one sample whose chains fit one warp.
template <class Tune>
constexpr int max_gathered_tiles() {
  return 32 / Tune::slice_width;
}

/// GPUs, tiles of one sample: one warp computes the chains of all tiles. The other threads gather the activations of
/// the next stage, so that a chain loads neighbouring operands and computes no addresses. (A warp issues an integer
/// instruction every other cycle: addresses took two thirds of the time of a chain.)
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
  static constexpr int max_tiles = max_gathered_tiles<Tune>();
  static constexpr int first_gatherer = max_tiles * slice_width;
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
  KOKKOS_FORCEINLINE_FUNCTION int stage(Member const& team, int chunk, int end) {
    if (chunk / stage_chunks != stage_) {
      if (stage_ < 0) gather(team, 0);
      ++stage_;
      gather(team, stage_ + 1); // its barrier also ends the gather of the present stage
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
  int stage_ = -1; ///< the stage whose activations are gathered
  Part part_;
};

/// The weights of a block of a dense layer in chunks of `ChunkInputs` inputs.
template <class Format, int ChunkInputs>
struct BlockChunks {
  using Scalar = typename Format::Scalar;
  static constexpr int num_pieces = ChunkInputs * Format::block_outputs * static_cast<int>(sizeof(Scalar)) / 16;

  ScratchPiece const* weights;
  int num_all_pieces; ///< pieces of the block

  /// See ChunkPipeline.
  KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int chunk, int first, int rank) const {
    int const piece = chunk * num_pieces + first + rank;
    return {weights + (piece < num_all_pieces ? piece : 0), piece < num_all_pieces};
  }
};

/// Bytes of a chunk of an output's weights, and number of chunks in scratch or in flight.
inline constexpr int split_output_chunk_bytes = 1024;
inline constexpr int split_output_stages = 4;

/// Bytes of the weights in scratch, for blocks of block_outputs outputs.
constexpr std::size_t split_output_buffers(int block_outputs) {
  return static_cast<std::size_t>(block_outputs) * split_output_chunk_bytes * split_output_stages;
}

/// One dense layer of one or a few samples, spread over the device: a team computes a block of outputs.
///   next(j, s) = clip(fma-chain over all inputs i, ascending, of weight(j, i) * previous(i, s), + bias(j))
/// league: blocks of outputs; team threads: outputs of the block x tiles of one sample for the chains, so a part of one
/// warp; all threads for copying weights and activations to scratch. No division precedes the first loads, and no
/// load's address depends on another load. A chain loads pieces of 16 bytes of weights and of activations. More tiles
/// than a warp has threads for are computed one group after the other. For inputs that fit team scratch. Bound by
/// latency: of the launch, of the first loads, and of the chain.
template <class ExecutionSpace, class Format, class Tile, class Tune_ = Tuning<ExecutionSpace, typename Tile::Scalar>>
struct SpreadDense {
  using Scalar = typename Tile::Scalar;
  using Tune = Tune_;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::SpreadBounds>;
  static_assert(Tile::num_samples == 1);
  static constexpr int team_size = Tune::spread_team_size;
  static constexpr int block_outputs = Format::block_outputs;
  static constexpr int max_tiles = 32 / block_outputs; ///< tiles computed at a time
  static constexpr int chunk_inputs = split_output_chunk_bytes / static_cast<int>(sizeof(Scalar));
  using Chunks = BlockChunks<Format, chunk_inputs>;
  using Pipeline = ChunkPipeline<ExecutionSpace, Scalar, Chunks, team_size, split_output_stages>;

  typename Format::Edges layer;
  LayerPass<Scalar> pass; ///< slots in order, in tiles of one sample
  int num_padded;         ///< inputs of the layer, padded
  int tiles_at_a_time;

  SpreadDense(typename Format::Edges const& layer_, LayerPass<Scalar> const& pass_)
      : layer(layer_),
        pass(pass_),
        num_padded(static_cast<int>(Format::padded_inputs(static_cast<std::size_t>(layer_.parameters.num_inputs)))),
        tiles_at_a_time(std::min(pass_.max_samples, +max_tiles)) {}

  /// Size of team scratch, in numbers.
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
      team.team_barrier(); // all threads have finished with scratch
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
    keep_in_register(count);
    int const tile = rank / block_outputs;
    int const output = block * block_outputs + rank % block_outputs;
    bool const is_output = tile < tiles_at_a_time && output < layer.parameters.num_outputs;
    int const known = is_output ? output : 0;
    double const bias = layer.parameters.bias_of(known);
    auto const neuron = Sums::neurons_of(layer.parameters, known);
    stage_inputs(rank, first_tile, scratch);
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

  /// Copies the activations of some tiles to scratch, in_flight loads per thread at a time. Padding is 0.
  KOKKOS_FORCEINLINE_FUNCTION void stage_inputs(int rank, int first_tile, ArrayView<Scalar> const& scratch) const {
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

  /// Adds the products of `steps` times Format::chunk_size inputs to a chain. Addresses are constant offsets from two
  /// running pointers, so that the loads of some steps can be issued before the chain needs the first.
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

/// Launches SpreadDense. Tiles hold one sample. Does not fence.
template <class Tile, class ExecutionSpace, class Format>
void split_output_dense(ExecutionSpace const& space, Format const& layer,
                        LayerPass<typename Tile::Scalar> const& pass) {
  using Kernel = SpreadDense<ExecutionSpace, Format, Tile>;
  auto const edges = layer.edges();
  if (pass.max_samples == 0 || edges.num_blocks() == 0) return;
  Kernel const kernel(edges, pass);
  launch_teams("varve::split_output_forward_dense",
               typename Kernel::Policy(space, edges.num_blocks(), +Kernel::team_size), kernel,
               Kernel::Tune::spread_level,
               static_cast<std::size_t>(kernel.scratch_size()) * sizeof(typename Tile::Scalar) + 128);
}

} // namespace varve
