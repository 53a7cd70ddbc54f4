#pragma once

#include "core/execution.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"
#include "kernels/chunk_pipeline.hpp"
#include "products/add_tile_cuda.hpp"
#include "products/product_blocks.hpp"

#include <algorithm>
#include <cstddef>

namespace varve {

/// Computes the same as AddTileOnHost, for GPUs without AddTileOnCuda.
/// league: blocks of 128 x 128 sums; team: 16 x 16 threads of 8 x 8 sums each, in registers. k is processed in chunks
/// (ChunkPipeline): while a team computes with one chunk of A and B in scratch, the next are in flight. A thread's rows
/// and columns are pieces of 16 bytes, 16 pieces apart, so that the threads of a warp load adjacent pieces. Per k it
/// loads 16 numbers from scratch for 64 fma. Bound by fma.
template <class ExecutionSpace, class Scalar>
struct AddTileOnGpu {
  static constexpr int piece = 16 / static_cast<int>(sizeof(Scalar));
  static constexpr int block = 128;
  static constexpr int across = 16; ///< threads of a row of threads
  static constexpr int team_size = across * across;
  static constexpr int pieces = block / (across * piece); ///< pieces of a thread's rows, and of its columns
  static constexpr int chunk = 2 * piece;                 ///< length in k: a piece of A and of B for every thread
  static constexpr int part_size = chunk * block;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, piece / 2>>;
  using Member = typename Policy::member_type;
  using Numbers = Pack<Scalar, piece>;

  /// A part of A and a part of B, one chunk of k after another.
  struct Chunks {
    static constexpr int part_pieces = part_size / piece;
    static constexpr int num_pieces = 2 * part_pieces;
    static_assert(part_pieces % team_size == 0);

    ArrayView<Scalar const> a;
    ArrayView<Scalar const> b;

    KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int number, int first, int rank) const {
      auto const& part = first < part_pieces ? a : b;
      auto const place =
          static_cast<std::size_t>(number) * part_pieces + static_cast<std::size_t>(first % part_pieces + rank);
      return source_piece(part, place);
    }
  };
  using Pipeline = ChunkPipeline<ExecutionSpace, Scalar, Chunks, team_size, 2>;
  static_assert(ProductBlocks<ExecutionSpace, Scalar>::rows == block || kOnHost<ExecutionSpace>);

  ArrayView<Scalar const> a;
  ArrayView<Scalar const> b;
  ArrayView<Scalar> sums;
  int row_blocks;
  int column_blocks;
  int depth;
  bool is_first;

  static constexpr std::size_t scratch_bytes = sizeof(Scalar) * Pipeline::size;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const buffers =
        ScratchArrays(team, 0, sizeof(Scalar) * Pipeline::size, 64).template take<Scalar>(Pipeline::size);
    int const rank = team.team_rank();
    auto const block_size = static_cast<std::size_t>(depth) * block;
    Chunks const chunks{
        part_of(a, static_cast<std::size_t>(team.league_rank() / column_blocks) * block_size, block_size),
        part_of(b, static_cast<std::size_t>(team.league_rank() % column_blocks) * block_size, block_size)};
    auto const kept = part_of(sums, static_cast<std::size_t>(team.league_rank()) * block * block, block * block);
    Numbers sum[pieces * piece][pieces];
    load_sums(sum, kept, rank);
    Pipeline pipeline;
    pipeline.start(team, buffers, chunks);
    int const num_chunks = (depth + chunk - 1) / chunk;
    for (int number = 0; number < num_chunks; ++number)
      add_chunk(sum, pipeline.await(team, buffers, chunks, number), rank);
    store_sums(sum, kept, rank);
  }

private:
  /// Index of a piece of a thread's sums, in pieces.
  KOKKOS_FORCEINLINE_FUNCTION static int place_of(int rank, int row, int column) {
    int const block_row = (row / piece * across + rank / across) * piece + row % piece;
    return block_row * (block / piece) + column * across + rank % across;
  }

  KOKKOS_FORCEINLINE_FUNCTION void load_sums(Numbers (&sum)[pieces * piece][pieces], ArrayView<Scalar> const& kept,
                                             int rank) const {
    VARVE_UNROLL
    for (int row = 0; row < pieces * piece; ++row) {
      VARVE_UNROLL
      for (int column = 0; column < pieces; ++column) {
        clear(sum[row][column]);
        if (!is_first) copy(sum[row][column], piece_of<Numbers>(kept, place_of(rank, row, column)));
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION static void store_sums(Numbers const (&sum)[pieces * piece][pieces],
                                                     ArrayView<Scalar> const& kept, int rank) {
    VARVE_UNROLL
    for (int row = 0; row < pieces * piece; ++row) {
      VARVE_UNROLL
      for (int column = 0; column < pieces; ++column)
        copy(piece_of<Numbers>(kept, place_of(rank, row, column)), sum[row][column]);
    }
  }

  /// Adds the products of a chunk to a thread's sums.
  KOKKOS_FORCEINLINE_FUNCTION static void add_chunk(Numbers (&sum)[pieces * piece][pieces],
                                                    ArrayView<Scalar const> const& buffer, int rank) {
    auto const numbers_a = part_of(buffer, 0, part_size);
    auto const numbers_b = part_of(buffer, part_size, part_size);
    VARVE_UNROLL
    for (int k = 0; k < chunk; ++k) {
      Numbers row_of_a[pieces];
      Numbers column_of_b[pieces];
      VARVE_UNROLL
      for (int p = 0; p < pieces; ++p) {
        copy(row_of_a[p], piece_of<Numbers>(numbers_a, k * (block / piece) + p * across + rank / across));
        copy(column_of_b[p], piece_of<Numbers>(numbers_b, k * (block / piece) + p * across + rank % across));
      }
      VARVE_UNROLL
      for (int row = 0; row < pieces * piece; ++row) {
        VARVE_UNROLL
        for (int column = 0; column < pieces; ++column)
          add_product(sum[row][column], row_of_a[row / piece].lane[row % piece], column_of_b[column]);
      }
    }
  }
};

/// Launches AddTileOnGpu. Does not fence.
template <class ExecutionSpace, class Scalar>
void add_tile_on_gpu(ExecutionSpace const& space, AddTileOnGpu<ExecutionSpace, Scalar> const& kernel) {
  using Kernel = AddTileOnGpu<ExecutionSpace, Scalar>;
  typename Kernel::Policy policy(space, kernel.row_blocks * kernel.column_blocks, +Kernel::team_size);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes) + 128));
  launch_teams("varve::add_tile", policy, kernel);
}

/// One step of a tile of C, for hosts: sums(i, j) = fma-chain over k, ascending, of a(i, k) * b(k, j), starting with
/// sums(i, j), or with 0 if is_first. a and b are packed.
/// league: groups of blocks of rows x groups of blocks of columns; team: one thread. A thread processes `host_depth` of
/// k at a time, for which its part of A and B stays in the L2, and the blocks of a group one after the other. For each
/// block it loads the sums into registers, adds a chain of products to every sum, and stores them without rounding. Per
/// k it loads two vectors of B and broadcasts `rows` numbers of A for 2 * rows fma of vectors. Bound by fma.
template <class ExecutionSpace, class Scalar>
struct AddTileOnHost {
  using Blocks = ProductBlocks<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  using Numbers = Pack<Scalar, Blocks::host_width>;
  static constexpr int rows = Blocks::rows;
  static constexpr int columns = Blocks::columns;
  static constexpr int vectors = columns / Blocks::host_width;

  ArrayView<Scalar const> a;
  ArrayView<Scalar const> b;
  ArrayView<Scalar> sums;
  int row_blocks;
  int column_blocks;
  int depth;
  bool is_first;

  int num_column_groups() const {
    return (column_blocks + Blocks::host_column_blocks - 1) / Blocks::host_column_blocks;
  }
  int num_row_groups() const { return (row_blocks + Blocks::host_row_blocks - 1) / Blocks::host_row_blocks; }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const groups = (column_blocks + Blocks::host_column_blocks - 1) / Blocks::host_column_blocks;
    int const first_row = team.league_rank() / groups * Blocks::host_row_blocks;
    int const first_column = team.league_rank() % groups * Blocks::host_column_blocks;
    int const last_row = least(first_row + Blocks::host_row_blocks, row_blocks);
    int const last_column = least(first_column + Blocks::host_column_blocks, column_blocks);
    for (int k = 0; k < depth; k += Blocks::host_depth) {
      int const last_k = least(k + Blocks::host_depth, depth);
      for (int column = first_column; column < last_column; ++column) {
        for (int row = first_row; row < last_row; ++row) add_block(row, column, k, last_k);
      }
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static int least(int one, int other) { return one < other ? one : other; }

  /// Adds the products of k in [first, last) to a block of sums.
  KOKKOS_FORCEINLINE_FUNCTION void add_block(int row, int column, int first, int last) const {
    auto const place = [&](int block, int width) {
      return (static_cast<std::size_t>(block) * static_cast<std::size_t>(depth) + static_cast<std::size_t>(first)) *
             static_cast<std::size_t>(width);
    };
    auto const count = static_cast<std::size_t>(last - first);
    Scalar const* const from_a = elements_of(a, place(row, rows), count * rows);
    auto const* const from_b =
        reinterpret_cast<Numbers const*>(elements_of(b, place(column, columns), count * columns));
    auto const block =
        static_cast<std::size_t>(row) * static_cast<std::size_t>(column_blocks) + static_cast<std::size_t>(column);
    auto* const kept = reinterpret_cast<Numbers*>(elements_of(sums, block * rows * columns, rows * columns));
    Numbers sum[rows][vectors];
    VARVE_UNROLL
    for (int r = 0; r < rows; ++r) {
      VARVE_UNROLL
      for (int v = 0; v < vectors; ++v) {
        clear(sum[r][v]);
        if (!(is_first && first == 0)) copy(sum[r][v], kept[r * vectors + v]);
      }
    }
    for (int k = 0; k < last - first; ++k) {
      Numbers value[vectors];
      VARVE_UNROLL
      for (int v = 0; v < vectors; ++v) copy(value[v], from_b[k * vectors + v]);
      VARVE_UNROLL
      for (int r = 0; r < rows; ++r) {
        VARVE_UNROLL
        for (int v = 0; v < vectors; ++v) add_product(sum[r][v], from_a[k * rows + r], value[v]);
      }
    }
    VARVE_UNROLL
    for (int r = 0; r < rows; ++r) {
      VARVE_UNROLL
      for (int v = 0; v < vectors; ++v) copy(kept[r * vectors + v], sum[r][v]);
    }
  }
};

/// Adds the products of a step to the sums of a tile of C by the kernel for this execution space. num_lanes: number of
/// steps that run concurrently. Does not fence.
template <class ExecutionSpace, class Scalar>
void add_tile(ExecutionSpace const& space, TileStep<Scalar> const& step, int num_lanes) {
  using Blocks = ProductBlocks<ExecutionSpace, Scalar>;
  int const row_blocks = (step.num_rows + Blocks::rows - 1) / Blocks::rows;
  int const column_blocks = (step.num_columns + Blocks::columns - 1) / Blocks::columns;
  if constexpr (kOnHost<ExecutionSpace>) {
    using Kernel = AddTileOnHost<ExecutionSpace, Scalar>;
    Kernel const kernel{step.a, step.b, step.sums, row_blocks, column_blocks, step.depth, step.is_first};
    typename Kernel::Policy const policy(space, kernel.num_row_groups() * kernel.num_column_groups(), 1);
    launch_teams("varve::add_tile", policy, kernel);
  } else {
    if constexpr (kHasScratchCopies) {
      if (add_tile_on_cuda(space, step, num_lanes)) return;
    }
    add_tile_on_gpu(space, AddTileOnGpu<ExecutionSpace, Scalar>{step.a, step.b, step.sums, row_blocks, column_blocks,
                                                                step.depth, step.is_first});
  }
}

} // namespace varve
