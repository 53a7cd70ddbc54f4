#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"

#include <type_traits>

namespace varve {

/// The sums of a team, `Rows` x `Columns`, in the registers of its threads, for AddTileOnCuda. A chunk of A is in
/// scratch as [k][Rows], one of B as [k][Columns]. Each thread has ThreadRows x ThreadColumns sums, in pieces of 16
/// bytes. A warp has `Down` threads down and the others across, so that its loads have no bank conflicts. The numbers
/// of `Ahead` values of k are loaded from scratch to registers while the thread computes.
template <class Scalar_, int Rows, int Columns, int ThreadRows, int ThreadColumns, int Down, int Chunk, int Ahead>
struct ThreadSums {
  using Scalar = Scalar_;
  static constexpr int piece = 16 / static_cast<int>(sizeof(Scalar));
  static constexpr int rows = Rows;
  static constexpr int columns = Columns;
  static constexpr int chunk = Chunk;
  static constexpr int team_size = Rows * Columns / (ThreadRows * ThreadColumns);
  static constexpr int stride_a = Rows; ///< numbers of a line of scratch
  static constexpr int stride_b = Columns;
  static constexpr int across = 32 / Down;
  static constexpr int warps_across = Columns / (across * ThreadColumns);
  using Numbers = Pack<Scalar, piece>;

  /// The numbers of one k for a thread.
  struct Line {
    Numbers of_a[ThreadRows / piece];
    Numbers of_b[ThreadColumns / piece];
  };

  Numbers sum[ThreadRows][ThreadColumns / piece];
  int first_row;
  int first_column;

  KOKKOS_FORCEINLINE_FUNCTION explicit ThreadSums(int rank)
      : first_row(rank / 32 / warps_across * (Down * ThreadRows) + rank % 32 / across * piece),
        first_column(rank / 32 % warps_across * (across * ThreadColumns) + rank % 32 % across * piece) {}

  /// Calls visit(number, row, column) for each piece of the thread's sums.
  template <class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_piece(Visit const& visit) {
    VARVE_UNROLL
    for (int r = 0; r < ThreadRows; ++r) {
      VARVE_UNROLL
      for (int c = 0; c < ThreadColumns / piece; ++c)
        visit(sum[r][c], first_row + r / piece * Down * piece + r % piece, first_column + c * across * piece);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void add_chunk(ArrayView<Scalar const> const& a, ArrayView<Scalar const> const& b) {
    Line line[Ahead + 1];
    VARVE_UNROLL
    for (int k = 0; k < Ahead; ++k) load(line[k], a, b, k);
    VARVE_UNROLL
    for (int k = 0; k < Chunk; ++k) {
      if (k + Ahead < Chunk) load(line[(k + Ahead) % (Ahead + 1)], a, b, k + Ahead);
      Line const& now = line[k % (Ahead + 1)];
      VARVE_UNROLL
      for (int r = 0; r < ThreadRows; ++r) {
        VARVE_UNROLL
        for (int c = 0; c < ThreadColumns / piece; ++c)
          add_product(sum[r][c], now.of_a[r / piece].lane[r % piece], now.of_b[c]);
      }
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void load(Line& line, ArrayView<Scalar const> const& a, ArrayView<Scalar const> const& b,
                                        int k) const {
    VARVE_UNROLL
    for (int p = 0; p < ThreadRows / piece; ++p)
      copy(line.of_a[p], piece_at<Numbers>(a, static_cast<std::size_t>(k * Rows + first_row + p * Down * piece)));
    VARVE_UNROLL
    for (int p = 0; p < ThreadColumns / piece; ++p)
      copy(line.of_b[p],
           piece_at<Numbers>(b, static_cast<std::size_t>(k * Columns + first_column + p * across * piece)));
  }
};

/// The sums of a team by the FP64 tensor cores: each warp has WarpRows x WarpColumns sums. Lines in scratch are padded
/// by four numbers, so that the four lines that a warp reads at once are in different banks.
template <int Rows, int Columns, int WarpRows, int WarpColumns, int Chunk>
struct WarpSums {
  using Scalar = double;
  static constexpr int piece = 2;
  static constexpr int rows = Rows;
  static constexpr int columns = Columns;
  static constexpr int chunk = Chunk;
  static constexpr int team_size = Rows / WarpRows * (Columns / WarpColumns) * 32;
  static constexpr int stride_a = Rows + 4;
  static constexpr int stride_b = Columns + 4;
  static constexpr int down = WarpRows / 16;
  static constexpr int across = WarpColumns / 8;
  using Numbers = Pack<double, piece>;

  MatrixSums sum[down][across];
  int first_row;
  int first_column;
  int line;   ///< among the four that a warp reads at once
  int number; ///< index within eight numbers of a line

  KOKKOS_FORCEINLINE_FUNCTION explicit WarpSums(int rank)
      : first_row(rank / 32 / (Columns / WarpColumns) * WarpRows),
        first_column(rank / 32 % (Columns / WarpColumns) * WarpColumns),
        line(rank % 4),
        number(rank % 32 / 4) {}

  /// Calls visit(number, row, column) for each piece of the thread's sums.
  template <class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_piece(Visit const& visit) {
    VARVE_UNROLL
    for (int r = 0; r < 2 * down; ++r) {
      VARVE_UNROLL
      for (int c = 0; c < across; ++c) {
        auto& pair = sum[r / 2][c].of_row[r % 2];
        Numbers numbers{{pair[0], pair[1]}};
        visit(numbers, first_row + r * 8 + number, first_column + c * 8 + line * 2);
        pair[0] = numbers.lane[0];
        pair[1] = numbers.lane[1];
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void add_chunk(ArrayView<double const> const& a, ArrayView<double const> const& b) {
    auto const* const from_a = elements_of(a, static_cast<std::size_t>(line * stride_a + first_row + number), 1);
    auto const* const from_b = elements_of(b, static_cast<std::size_t>(line * stride_b + first_column + number), 1);
    VARVE_UNROLL
    for (int k = 0; k < Chunk; k += 4) {
      double row_of_a[down][2];
      double column_of_b[across];
      VARVE_UNROLL
      for (int r = 0; r < 2 * down; ++r) row_of_a[r / 2][r % 2] = from_a[k * stride_a + r * 8];
      VARVE_UNROLL
      for (int c = 0; c < across; ++c) column_of_b[c] = from_b[k * stride_b + c * 8];
      VARVE_UNROLL
      for (int r = 0; r < down; ++r) {
        VARVE_UNROLL
        for (int c = 0; c < across; ++c) add_matrix_product(sum[r][c], row_of_a[r], column_of_b[c]);
      }
    }
  }
};

} // namespace varve
