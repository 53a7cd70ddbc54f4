#pragma once

#include "core/views.hpp"
#include "kernels/chunk_pipeline.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/leaf_gradient.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/trained_forward.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace varve {

/// Hosts: the product of a dense matrix with the lines of all neurons in each leaf of a mini-batch:
///
///   sums(row, s) = fma-chain over k, ascending, of matrix(row, k) * lines(k, s)
///
/// `finish(sum, leaf, row, lane)` stores a row. league: leaves x blocks of groups; team threads: groups of `group`
/// rows; vector lanes: packs of samples. Per k and group it reads one line (256 bytes) for `group` fma per sample,
/// whose sums stay in registers. Bound by fma.
template <class ExecutionSpace, class Scalar, int Links, class Finish>
struct LeafProductOnHost {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int group = 6; ///< rows of a group

  ConstDeviceArray<ExecutionSpace, Scalar> matrix; ///< [row][k]
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> lines;
  int num_rows;
  int depth; ///< length of a row: number of neurons whose lines are read
  int num_blocks;
  Finish finish;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const leaf = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const num_groups = (num_rows + group - 1) / group;
    int const first = static_cast<int>(static_cast<std::int64_t>(num_groups) * block / num_blocks);
    int const last = static_cast<int>(static_cast<std::int64_t>(num_groups) * (block + 1) / num_blocks);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
      for (int number = first + team.team_rank(); number < last; number += team.team_size()) {
        int const row = number * group;
        if (row + group <= num_rows) {
          multiply<group>(leaf, row, lane);
        } else {
          for (int left = row; left < num_rows; ++left) multiply<1>(leaf, left, lane);
        }
      }
    });
  }

  /// Computes Count rows from `row` on.
  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION void multiply(int leaf, int row, int lane) const {
    auto const width = static_cast<std::size_t>(depth);
    std::size_t const first_line = static_cast<std::size_t>(leaf) * width;
    auto const* const own = elements_of(matrix, static_cast<std::size_t>(row) * width, Count * width);
    LanePacks<Tile> sum[Count];
    VARVE_UNROLL
    for (int i = 0; i < Count; ++i) sum[i].clear_all();
    for (std::size_t k = 0; k < width; ++k) {
      LanePacks<Tile> value;
      value.load(lines(first_line + k), lane);
      VARVE_UNROLL
      for (int i = 0; i < Count; ++i) {
        Scalar const weight = own[static_cast<std::size_t>(i) * width + k];
        VARVE_UNROLL
        for (int p = 0; p < Tile::packs_per_lane; ++p) add_product(sum[i].pack[p], weight, value.pack[p]);
      }
    }
    VARVE_UNROLL
    for (int i = 0; i < Count; ++i) finish(sum[i], leaf, row + i, lane);
  }
};

/// Shape of a team of LeafProductOnGpu, and the number of chunks of k in scratch or in flight.
template <int TeamSize, int ThreadRows, int NumStages>
struct LeafTeam {
  static constexpr int team_size = TeamSize;
  static constexpr int thread_rows = ThreadRows; ///< rows for which a thread holds a lane's samples in registers
  static constexpr int num_stages = NumStages;
};

/// The chunks of k that a team multiplies: the lines of a leaf, then the numbers of the team's rows, [row][k]. If rows
/// of the matrix begin at multiples of 16 bytes (InPieces), numbers are copied in pieces of 16 bytes, else one by one.
template <class Tile, int Chunk, int Rows, bool InPieces>
struct LeafChunks {
  using Scalar = typename Tile::Scalar;
  static constexpr int line_pieces = Tile::packs_per_lane * Tile::num_lanes;
  static constexpr int pieces_of_lines = Chunk * line_pieces;
  static constexpr int row_pieces = Chunk / Tile::pack_width;
  static constexpr int num_pieces = pieces_of_lines + (InPieces ? Rows * row_pieces : 0);
  static constexpr int num_numbers = InPieces ? 0 : Rows * Chunk;
  static_assert(sizeof(typename Tile::PackType) == sizeof(ScratchPiece));

  typename Tile::Line const* lines; ///< lines of the leaf
  Scalar const* numbers;            ///< numbers of the team's rows
  int depth;                        ///< number of lines, and length of a row
  int num_rows;                     ///< rows of the matrix from the team's first one on

  KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int chunk, int first, int rank) const {
    if (first < pieces_of_lines) { // known at compile time
      int const k = chunk * Chunk + (first + rank) / line_pieces;
      bool const is_there = k < depth;
      return {reinterpret_cast<ScratchPiece const*>(&lines[is_there ? k : 0].pack[(first + rank) % line_pieces]),
              is_there};
    }
    int const piece = first + rank - pieces_of_lines;
    auto const number = number_of(piece / row_pieces, chunk * Chunk + piece % row_pieces * Tile::pack_width);
    return {reinterpret_cast<ScratchPiece const*>(number.address), number.is_there};
  }
  KOKKOS_FORCEINLINE_FUNCTION SourceNumber<Scalar> number_at(int chunk, int first, int rank) const {
    return number_of((first + rank) / Chunk, chunk * Chunk + (first + rank) % Chunk);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION SourceNumber<Scalar> number_of(int row, int k) const {
    bool const is_there = row < num_rows && k < depth;
    return {numbers + (is_there ? static_cast<std::size_t>(row) * static_cast<std::size_t>(depth) +
                                      static_cast<std::size_t>(k)
                                : 0),
            is_there};
  }
};

/// GPUs: the product of a dense matrix with the lines of all neurons in each leaf of a mini-batch:
///
///   sums(row, s) = fma-chain over k, ascending, of matrix(row, k) * lines(k, s)
///
/// `finish(sum, leaf, row, lane)` stores a lane's part of a row. Past the last k the chain adds 0 * 0, which changes at
/// most the sign of a sum that is zero. league: leaves x parts of `rows` rows; team threads: lanes of the leaf x groups
/// of Team::thread_rows rows. k is processed in chunks (ChunkPipeline): while a team computes with one chunk in
/// scratch, the next are in flight. Per k a thread loads 16 bytes of samples and the weights of its rows from scratch,
/// for one fma per sample and row. Bound by the fma units; with one or two rows per thread, by loads from scratch.
template <class ExecutionSpace, class Scalar, class Team, bool InPieces, class Finish>
struct LeafProductOnGpu {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  static constexpr int team_size = Team::team_size;
  static constexpr int thread_rows = Team::thread_rows;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, 2>>;
  using Member = typename Policy::member_type;
  using Numbers = typename Tile::PackType;
  static constexpr int chunk = 128 / static_cast<int>(sizeof(Scalar));
  static constexpr int rows = team_size / Tile::num_lanes * thread_rows;
  using Chunks = LeafChunks<Tile, chunk, rows, InPieces>;
  using Pipeline = ChunkPipeline<ExecutionSpace, Scalar, Chunks, team_size, Team::num_stages>;
  static constexpr std::size_t scratch_bytes = sizeof(Scalar) * Pipeline::size;

  ConstDeviceArray<ExecutionSpace, Scalar> matrix; ///< [row][k]
  ConstTrainingPanel<ExecutionSpace, Scalar> lines;
  int num_rows;
  int depth; ///< length of a row: number of neurons whose lines are read
  int num_parts;
  Finish finish;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const leaf = team.league_rank() / num_parts;
    int const first_row = team.league_rank() % num_parts * rows;
    int const rank = team.team_rank();
    auto const buffers = ScratchArrays(team, 0, scratch_bytes, 128).template take<Scalar>(Pipeline::size);
    Chunks const chunks{&lines(static_cast<std::size_t>(leaf) * static_cast<std::size_t>(depth)),
                        &matrix(static_cast<std::size_t>(first_row) * static_cast<std::size_t>(depth)), depth,
                        num_rows - first_row};
    LanePacks<Tile> sum[thread_rows];
    VARVE_UNROLL
    for (int r = 0; r < thread_rows; ++r) sum[r].clear_all();
    Pipeline pipeline;
    pipeline.start(team, buffers, chunks);
    int const num_chunks = (depth + chunk - 1) / chunk;
    for (int i = 0; i < num_chunks; ++i) add_chunk(sum, pipeline.await(team, buffers, chunks, i), rank);
    VARVE_UNROLL
    for (int r = 0; r < thread_rows; ++r) {
      int const row = first_row + rank / Tile::num_lanes * thread_rows + r;
      if (row < num_rows) finish(sum[r], leaf, row, rank % Tile::num_lanes);
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(LanePacks<Tile> (&sum)[thread_rows],
                                                    ArrayView<Scalar const> const& buffer, int rank) {
    constexpr int packs = Chunks::line_pieces;
    int const lane = rank % Tile::num_lanes;
    int const first = (Chunks::pieces_of_lines * Tile::pack_width) + rank / Tile::num_lanes * thread_rows * chunk;
    VARVE_UNROLL
    for (int k = 0; k < chunk; k += Tile::pack_width) {
      Numbers weights[thread_rows];
      VARVE_UNROLL
      for (int r = 0; r < thread_rows; ++r)
        copy(weights[r], piece_at<Numbers>(buffer, static_cast<std::size_t>(first + r * chunk + k)));
      VARVE_UNROLL
      for (int i = 0; i < Tile::pack_width; ++i) {
        VARVE_UNROLL
        for (int p = 0; p < Tile::packs_per_lane; ++p) {
          auto const value = piece_of<Numbers>(buffer, (k + i) * packs + p * Tile::num_lanes + lane);
          VARVE_UNROLL
          for (int r = 0; r < thread_rows; ++r) add_product(sum[r].pack[p], weights[r].lane[i], value);
        }
      }
    }
  }
};

/// Launches LeafProductOnGpu for num_leaves leaves, with the number of rows per thread that gives most multiprocessors
/// a team. Does not fence.
template <class ExecutionSpace, class Scalar, class Finish>
void leaf_product_on_gpu(ExecutionSpace const& space, ConstDeviceArray<ExecutionSpace, Scalar> const& matrix,
                         ConstTrainingPanel<ExecutionSpace, Scalar> const& lines, int num_rows, int depth,
                         int num_leaves, Finish const& finish) {
  if (num_leaves == 0 || num_rows == 0) return;
  int const enough_teams = num_processors(space) * 3 / 4;
  auto const launch = [&]<class Team, bool InPieces>(Team, std::bool_constant<InPieces>, int fewest_teams) {
    using Kernel = LeafProductOnGpu<ExecutionSpace, Scalar, Team, InPieces, Finish>;
    int const parts = (num_rows + Kernel::rows - 1) / Kernel::rows;
    int const teams = num_leaves * parts;
    if (teams < fewest_teams) return false;
    launch_teams("varve::leaf_product", typename Kernel::Policy(space, teams, +Kernel::team_size),
                 Kernel{matrix, lines, num_rows, depth, parts, finish}, 0, Kernel::scratch_bytes + 128);
    return true;
  };
  using Large = LeafTeam<256, 4, 3>;
  using Medium = LeafTeam<256, 2, 3>;
  using Small = LeafTeam<128, 2, 4>;
  bool const is_in_pieces = reinterpret_cast<std::uintptr_t>(matrix.data()) % sizeof(ScratchPiece) == 0 &&
                            depth % TrainingTile<ExecutionSpace, Scalar>::pack_width == 0;
  if (is_in_pieces) {
    launch(Large{}, std::true_type{}, enough_teams) || launch(Medium{}, std::true_type{}, enough_teams) ||
        launch(Small{}, std::true_type{}, 0);
  } else { // four rows per thread would need too many registers for addresses
    launch(Medium{}, std::false_type{}, enough_teams) || launch(Small{}, std::false_type{}, 0);
  }
}

/// Turns the sums of a leaf's product into activations and stores them.
template <class ExecutionSpace, class Scalar, int Links>
struct FinishActivations {
  TrainedForward<ExecutionSpace, Scalar, Links> given;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>>& sum, int leaf,
                                              int row, int lane) const {
    given.finish_row(sum, leaf, row, lane);
  }
};

/// Turns the sums of a leaf's product into errors of a layer's inputs and stores them.
template <class ExecutionSpace, class Scalar, int Links>
struct FinishInputErrors {
  FusedBackward<ExecutionSpace, Scalar, true, Links> given;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>>& sum, int leaf,
                                              int row, int lane) const {
    auto const line = line_of(leaf, given.stride, row);
    LanePacks<TrainingTile<ExecutionSpace, Scalar, Links>> x;
    x.load(given.inputs(line), lane);
    given.store_errors(sum, x, line, lane);
  }
};

/// Launches the product of a dense matrix with the lines of each leaf by the kernel of the execution space. Does not
/// fence.
template <int Links, class ExecutionSpace, class Scalar, class Finish>
void leaf_product(ExecutionSpace const& space, ConstDeviceArray<ExecutionSpace, Scalar> const& matrix,
                  ConstTrainingPanel<ExecutionSpace, Scalar, Links> const& lines, int num_rows, int depth,
                  int num_leaves, Finish const& finish) {
  if constexpr (kOnHost<ExecutionSpace>) {
    using Kernel = LeafProductOnHost<ExecutionSpace, Scalar, Links, Finish>;
    using Tune = TrainingTuning<ExecutionSpace>;
    if (num_leaves == 0 || num_rows == 0) return;
    int const num_groups = (num_rows + Kernel::group - 1) / Kernel::group;
    int const num_blocks = Tune::forward_blocks(num_processors(space), num_groups, num_leaves);
    typename Kernel::Policy const policy(space, num_leaves * num_blocks, Tune::team_size, Kernel::Tile::num_lanes);
    launch_teams("varve::leaf_product", policy, Kernel{matrix, lines, num_rows, depth, num_blocks, finish});
  } else {
    leaf_product_on_gpu(space, matrix, lines, num_rows, depth, num_leaves, finish);
  }
}

/// One layer of a mini-batch from a dense matrix, whose weights are 0 where there is no edge:
///   outputs(j, s) = finish(fma-chain over all inputs i, ascending, of weight(j, i) * inputs(i, s), bias(j))
/// given.weights: [output][input], for num_outputs outputs; given.edges are not read. Bitwise equal to TrainedForward:
/// activations are finite, so a weight 0 changes at most the sign of a zero sum, which changes no output
/// (formats/dense_blocks.hpp). Launches the product for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar, int Links>
void trained_dense_forward(ExecutionSpace const& space, TrainedForward<ExecutionSpace, Scalar, Links> const& given,
                           int num_outputs, int num_leaves) {
  leaf_product<Links>(space, given.weights, given.inputs, num_outputs, given.num_inputs, num_leaves,
                      FinishActivations<ExecutionSpace, Scalar, Links>{given});
}

/// Backward pass of one layer from a dense matrix, whose weights are 0 where there is no edge. Computes the same as
/// FusedBackward, but gradients for all places (i, j):
///
///   input_errors(i, s) = act'(inputs(i, s)) * fma-chain over all j, ascending, of weight(j, i) * errors(j, s)
///
///   gradient(j, i) = sum over s of inputs(i, s) * errors(j, s), in the order of network/leaf.hpp, into `levels`
///
/// given.weights and given.levels: [input][output], for num_inputs inputs; given.edges are not read. At edges it is
/// bitwise equal to FusedBackward: with finite errors, a weight 0 changes at most the sign of a zero sum, and the sign
/// of a zero error changes no gradient, because gradients are never -0. (With both kernels, errors that are not finite
/// end the training.) Levels must have runs of leaves_per_run() of the tuning; on GPUs, `levels` and `bias_levels` must
/// have the same runs, of leaves_per_dense_run(). Does not fence.
template <class ExecutionSpace, class Scalar, bool HasInputErrors, int Links>
void trained_dense_backward(ExecutionSpace const& space,
                            FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links> const& given, int num_inputs) {
  if constexpr (kOnHost<ExecutionSpace>) {
    if (given.bias_levels.num_sums != 0)
      neuron_sums(space, NeuronSums<ExecutionSpace, Scalar, Links>{given.errors, given.bias_levels, given.num_outputs});
    leaf_gradient_on_host(space, LeafGradientOnHost<ExecutionSpace, Scalar, Links>{given.inputs, given.errors,
                                                                                   given.levels, num_inputs,
                                                                                   given.num_outputs, given.stride, 1});
  } else {
    leaf_gradient_on_gpu(space, LeafGradientOnGpu<ExecutionSpace, Scalar>{given.inputs, given.errors, given.levels,
                                                                          given.bias_levels, num_inputs,
                                                                          given.num_outputs, given.stride});
  }
  if constexpr (HasInputErrors) {
    leaf_product<Links>(space, given.weights, given.errors, num_inputs, given.num_outputs, given.levels.num_leaves,
                        FinishInputErrors<ExecutionSpace, Scalar, Links>{given});
  }
}

} // namespace varve
