#pragma once

#include "core/execution.hpp"
#include "core/host_vector.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"
#include "products/add_tile_gpu.hpp"

#include <cstddef>
#include <type_traits>

namespace varve {

/// The block shapes of a product's kernel: tiles of A and B are packed into blocks, and the sums of a tile of C are
/// stored in blocks of `rows` x `columns` numbers, row by row.
template <class ExecutionSpace, class Scalar>
struct ProductBlocks {
  static constexpr bool on_host = kOnHost<ExecutionSpace>;
  static constexpr int pack_width = 64 / static_cast<int>(sizeof(Scalar));
  using HostRegister = typename host::FmaRegister<Scalar, pack_width>::type;

  static constexpr int register_bytes() {
    if constexpr (std::is_void_v<HostRegister>) {
      return 32;
    } else {
      return static_cast<int>(sizeof(HostRegister));
    }
  }

  /// Host: the sums of a block fill 24 of 32 vector registers, or 12 of 16.
  static constexpr int host_rows = register_bytes() == 64 ? 12 : 6;
  static constexpr int host_width = register_bytes() / static_cast<int>(sizeof(Scalar)); ///< numbers of a vector
  static constexpr int rows = on_host ? host_rows : gpu_block;
  static constexpr int columns = on_host ? 2 * host_width : gpu_block;

  /// Products that a host adds to a block before the next one: with this depth, a block of B fits the L1.
  static constexpr int host_depth = 256;
  /// Blocks of rows and of columns that a host thread processes together: their numbers of A and B fit the L2.
  static constexpr int host_row_blocks = 16;
  static constexpr int host_column_blocks = 16;
};

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

  KOKKOS_FUNCTION int num_column_groups() const {
    return (column_blocks + Blocks::host_column_blocks - 1) / Blocks::host_column_blocks;
  }
  int num_row_groups() const { return (row_blocks + Blocks::host_row_blocks - 1) / Blocks::host_row_blocks; }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const first_row = team.league_rank() / num_column_groups() * Blocks::host_row_blocks;
    int const first_column = team.league_rank() % num_column_groups() * Blocks::host_column_blocks;
    int const last_row = Kokkos::min(first_row + Blocks::host_row_blocks, row_blocks);
    int const last_column = Kokkos::min(first_column + Blocks::host_column_blocks, column_blocks);
    for (int k = 0; k < depth; k += Blocks::host_depth) {
      int const last_k = Kokkos::min(k + Blocks::host_depth, depth);
      for (int column = first_column; column < last_column; ++column) {
        for (int row = first_row; row < last_row; ++row) add_block(row, column, k, last_k);
      }
    }
  }

private:
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
  if constexpr (kOnHost<ExecutionSpace>) {
    using Kernel = AddTileOnHost<ExecutionSpace, Scalar>;
    using Blocks = ProductBlocks<ExecutionSpace, Scalar>;
    int const row_blocks = (step.num_rows + Blocks::rows - 1) / Blocks::rows;
    int const column_blocks = (step.num_columns + Blocks::columns - 1) / Blocks::columns;
    Kernel const kernel{step.a, step.b, step.sums, row_blocks, column_blocks, step.depth, step.is_first};
    typename Kernel::Policy const policy(space, kernel.num_row_groups() * kernel.num_column_groups(), 1);
    launch_teams("varve::add_tile", policy, kernel);
  } else {
    add_tile_on_gpu(space, step, num_lanes);
  }
}

} // namespace varve
