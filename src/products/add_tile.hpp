#pragma once

#include "core/execution.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"
#include "products/add_tile_cuda.hpp"
#include "products/add_tile_gpu.hpp"
#include "products/product_blocks.hpp"

#include <algorithm>
#include <cstddef>

namespace varve {

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
