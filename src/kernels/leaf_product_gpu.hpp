#pragma once

#include "core/views.hpp"
#include "kernels/training_tile.hpp"

#include <cstddef>

namespace varve {

/// GPUs: the product of a dense matrix with the lines of all neurons in each leaf of a mini-batch:
///
///   sums(row, s) = fma-chain over k, ascending, of matrix(row, k) * lines(k, s)
///
/// `finish(sum, leaf, row, lane)` stores what one lane has of a row. Past the last k the chain adds 0 * 0, which
/// changes at most the sign of a sum that is zero. league: leaves x parts of `rows` rows; team: 256 threads, each with
/// ThreadRows rows of a lane's samples in registers. k comes in chunks: the next one travels to registers while the
/// team computes from two buffers in scratch, in turn; one barrier a chunk. Per k a thread loads 16 bytes of samples
/// from scratch, and ThreadRows weights, for ThreadRows fma a sample. Bound by the fma units; with few leaves and rows
/// by the time in which a chunk arrives.
template <class ExecutionSpace, class Scalar, int ThreadRows, class Finish>
struct LeafProductOnGpu {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  static constexpr int team_size = 256;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, 2>>;
  using Member = typename Policy::member_type;
  using Numbers = typename Tile::PackType;
  static constexpr int piece = Tile::pack_width;
  static constexpr int packs = Tile::packs_per_lane * Tile::num_lanes; ///< of a line
  static constexpr int chunk = 128 / static_cast<int>(sizeof(Scalar));
  static constexpr int rows = team_size / Tile::num_lanes * ThreadRows;
  static constexpr int stride = chunk + piece; ///< between rows of weights in scratch
  static constexpr int line_loads = chunk * packs / team_size;
  static constexpr int weight_loads = rows * chunk / team_size;
  static constexpr std::size_t lines_size = static_cast<std::size_t>(chunk) * packs; ///< in packs
  static constexpr std::size_t weights_size = static_cast<std::size_t>(rows) * stride;
  static constexpr std::size_t buffer_bytes = lines_size * sizeof(Numbers) + weights_size * sizeof(Scalar);
  static constexpr std::size_t scratch_bytes = 2 * buffer_bytes;
  static_assert(chunk * packs % team_size == 0 && rows * chunk % team_size == 0 && team_size % chunk == 0);

  ConstDeviceArray<ExecutionSpace, Scalar> matrix; ///< [row][k]
  ConstTrainingPanel<ExecutionSpace, Scalar> lines;
  int num_rows;
  int depth; ///< numbers of a row: neurons whose lines are read
  int num_parts;
  Finish finish;

  /// A chunk in scratch.
  struct Buffer {
    ArrayView<Numbers> lines;
    ArrayView<Scalar> weights;
  };
  /// What a thread carries of the next chunk.
  struct Carried {
    Numbers lines[line_loads];
    Scalar weights[weight_loads];
  };

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const leaf = team.league_rank() / num_parts;
    int const first_row = team.league_rank() % num_parts * rows;
    int const rank = team.team_rank();
    ScratchArrays scratch(team, 0, scratch_bytes, 128);
    auto const all_lines = scratch.template take<Numbers>(2 * lines_size);
    auto const all_weights = scratch.template take<Scalar>(2 * weights_size);
    LanePacks<Tile> sum[ThreadRows];
    VARVE_UNROLL
    for (int r = 0; r < ThreadRows; ++r) sum[r].clear_all();
    Carried carried;
    load(carried, leaf, first_row, 0, rank);
    std::size_t turn = 0; // of the two buffers
    for (int first = 0; first < depth; first += chunk, turn = 1 - turn) {
      Buffer const buffer{part_of(all_lines, turn * lines_size, lines_size),
                          part_of(all_weights, turn * weights_size, weights_size)};
      store(carried, buffer, rank);
      team.team_barrier(); // the chunk is there for all, and all are done with the buffer's chunk before
      load(carried, leaf, first_row, first + chunk, rank);
      add_chunk(sum, buffer, rank);
    }
    VARVE_UNROLL
    for (int r = 0; r < ThreadRows; ++r) {
      int const row = first_row + rank / Tile::num_lanes * ThreadRows + r;
      if (row < num_rows) finish(sum[r], leaf, row, rank % Tile::num_lanes);
    }
  }

private:
  /// Loads a thread's part of a chunk; rows and k beyond the last are zero.
  KOKKOS_FORCEINLINE_FUNCTION void load(Carried& carried, int leaf, int first_row, int first, int rank) const {
    std::size_t const first_line = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(depth);
    VARVE_UNROLL
    for (int i = 0; i < line_loads; ++i) {
      int const number = i * team_size + rank;
      int const k = first + number / packs;
      clear(carried.lines[i]);
      if (k < depth) copy(carried.lines[i], lines(first_line + static_cast<std::size_t>(k)).pack[number % packs]);
    }
    int const k = first + rank % chunk;
    VARVE_UNROLL
    for (int i = 0; i < weight_loads; ++i) {
      int const row = first_row + i * (team_size / chunk) + rank / chunk;
      carried.weights[i] = 0;
      if (row < num_rows && k < depth)
        carried.weights[i] =
            matrix(static_cast<std::size_t>(row) * static_cast<std::size_t>(depth) + static_cast<std::size_t>(k));
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION static void store(Carried const& carried, Buffer const& buffer, int rank) {
    VARVE_UNROLL
    for (int i = 0; i < line_loads; ++i) copy(buffer.lines(i * team_size + rank), carried.lines[i]);
    VARVE_UNROLL
    for (int i = 0; i < weight_loads; ++i)
      buffer.weights((i * (team_size / chunk) + rank / chunk) * stride + rank % chunk) = carried.weights[i];
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(LanePacks<Tile> (&sum)[ThreadRows], Buffer const& buffer,
                                                    int rank) {
    int const lane = rank % Tile::num_lanes;
    int const first = rank / Tile::num_lanes * ThreadRows * stride;
    VARVE_UNROLL
    for (int k = 0; k < chunk; k += piece) {
      Numbers weights[ThreadRows];
      VARVE_UNROLL
      for (int r = 0; r < ThreadRows; ++r)
        copy(weights[r], piece_at<Numbers>(buffer.weights, static_cast<std::size_t>(first + r * stride + k)));
      VARVE_UNROLL
      for (int i = 0; i < piece; ++i) {
        VARVE_UNROLL
        for (int p = 0; p < Tile::packs_per_lane; ++p) {
          Numbers const value = buffer.lines((k + i) * packs + p * Tile::num_lanes + lane);
          VARVE_UNROLL
          for (int r = 0; r < ThreadRows; ++r) add_product(sum[r].pack[p], weights[r].lane[i], value);
        }
      }
    }
  }
};

/// Launches LeafProductOnGpu for num_leaves leaves: with as many rows a thread (4, 2 or 1) as give most multiprocessors
/// a team. Does not fence.
template <class ExecutionSpace, class Scalar, class Finish>
void leaf_product_on_gpu(ExecutionSpace const& space, ConstDeviceArray<ExecutionSpace, Scalar> const& matrix,
                         ConstTrainingPanel<ExecutionSpace, Scalar> const& lines, int num_rows, int depth,
                         int num_leaves, Finish const& finish) {
  if (num_leaves == 0 || num_rows == 0) return;
  int const enough_teams = num_processors(space) * 3 / 4;
  auto const launch = [&](auto kernel, int fewest_teams) {
    using Kernel = decltype(kernel);
    kernel.num_parts = (num_rows + Kernel::rows - 1) / Kernel::rows;
    int const teams = num_leaves * kernel.num_parts;
    if (teams < fewest_teams) return false;
    typename Kernel::Policy policy(space, teams, +Kernel::team_size);
    policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes) + 128));
    launch_teams("varve::leaf_product", policy, kernel);
    return true;
  };
  using Four = LeafProductOnGpu<ExecutionSpace, Scalar, 4, Finish>;
  using Two = LeafProductOnGpu<ExecutionSpace, Scalar, 2, Finish>;
  using One = LeafProductOnGpu<ExecutionSpace, Scalar, 1, Finish>;
  launch(Four{matrix, lines, num_rows, depth, 0, finish}, enough_teams) ||
      launch(Two{matrix, lines, num_rows, depth, 0, finish}, enough_teams) ||
      launch(One{matrix, lines, num_rows, depth, 0, finish}, 0);
}

} // namespace varve
