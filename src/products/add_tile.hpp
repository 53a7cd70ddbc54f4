#pragma once

#include "core/execution.hpp"
#include "core/host_vector.hpp"
#include "core/intrinsics.hpp"
#include "core/large_scratch.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"
#include "kernels/chunk_pipeline.hpp"

#include <cstddef>
#include <type_traits>

namespace varve {

/// A step of a tile of C: packed blocks of rows of A and of columns of B, and the sums in blocks of both.
template <class Scalar>
struct TileStep {
  ArrayView<Scalar const> a;
  ArrayView<Scalar const> b;
  ArrayView<Scalar> sums;
  int num_rows;
  int num_columns;
  int depth;
  bool is_first; ///< the sums start at 0
};

/// Rows and columns of the blocks of A, B and C on GPUs.
inline constexpr int gpu_block = 128;

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

namespace detail {

/// Loads the sums of a thread from a block or a part of one, from its first sum on.
template <class Sums>
KOKKOS_FORCEINLINE_FUNCTION void load_sums(Sums& own, ArrayView<typename Sums::Scalar> const& kept, bool is_first) {
  own.for_each_piece([&](typename Sums::Numbers& numbers, int row, int column) {
    clear(numbers);
    if (is_first) return;
    copy(numbers, piece_at<typename Sums::Numbers>(kept, static_cast<std::size_t>(row * gpu_block + column)));
  });
}

template <class Sums>
KOKKOS_FORCEINLINE_FUNCTION void store_sums(Sums& own, ArrayView<typename Sums::Scalar> const& kept) {
  own.for_each_piece([&](typename Sums::Numbers const& numbers, int row, int column) {
    copy(piece_at<typename Sums::Numbers>(kept, static_cast<std::size_t>(row * gpu_block + column)), numbers);
  });
}

} // namespace detail

/// Computes the same as AddTileOnHost, for GPUs without asynchronous copies to scratch, or with too little scratch for
/// AddTileOnCuda.
/// league: blocks of 128 x 128 sums; team: 256 threads of 8 x 8 sums each, in registers. k is processed in chunks
/// (ChunkPipeline): while a team computes with one chunk of A and B in scratch, the next are in flight. Per k a thread
/// loads 16 numbers from scratch for 64 fma. Bound by fma.
template <class ExecutionSpace, class Scalar>
struct AddTileOnGpu {
  static constexpr int chunk = 32 / static_cast<int>(sizeof(Scalar)); ///< in k: a piece of A and of B for each thread
  using Sums = ThreadSums<Scalar, gpu_block, gpu_block, 8, 8, 4, chunk, 1>;
  static constexpr int part_size = chunk * gpu_block;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Sums::team_size, Sums::piece / 2>>;
  using Member = typename Policy::member_type;

  /// A part of A and a part of B, one chunk of k after another.
  struct Chunks {
    static constexpr int part_pieces = part_size / Sums::piece;
    static constexpr int num_pieces = 2 * part_pieces;
    static_assert(part_pieces % Sums::team_size == 0);

    ArrayView<Scalar const> a;
    ArrayView<Scalar const> b;

    KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int number, int first, int rank) const {
      auto const& part = first < part_pieces ? a : b;
      auto const place =
          static_cast<std::size_t>(number) * part_pieces + static_cast<std::size_t>(first % part_pieces + rank);
      return source_piece(part, place);
    }
  };
  using Pipeline = ChunkPipeline<ExecutionSpace, Scalar, Chunks, Sums::team_size, 2>;

  TileStep<Scalar> step;
  int column_blocks;

  static constexpr std::size_t scratch_bytes = sizeof(Scalar) * Pipeline::size;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const buffers = ScratchArrays(team, 0, scratch_bytes, 64).template take<Scalar>(Pipeline::size);
    auto const size = static_cast<std::size_t>(step.depth) * gpu_block;
    auto const number = static_cast<std::size_t>(team.league_rank());
    auto const across = static_cast<std::size_t>(column_blocks);
    Chunks const chunks{part_of(step.a, number / across * size, size), part_of(step.b, number % across * size, size)};
    auto const kept = part_of(step.sums, number * gpu_block * gpu_block, gpu_block * gpu_block);
    Sums own(team.team_rank());
    detail::load_sums(own, kept, step.is_first);
    Pipeline pipeline;
    pipeline.start(team, buffers, chunks);
    int const num_chunks = (step.depth + chunk - 1) / chunk;
    for (int k = 0; k < num_chunks; ++k) {
      auto const numbers = pipeline.await(team, buffers, chunks, k);
      own.add_chunk(part_of(numbers, 0, part_size), part_of(numbers, part_size, part_size));
    }
    detail::store_sums(own, kept);
  }
};

/// Computes the same as AddTileOnGpu, for NVIDIA GPUs with asynchronous copies to scratch (kHasScratchCopies). HIP,
/// older NVIDIA GPUs and GPUs with less scratch use AddTileOnGpu.
/// league: parts of the tile of C, Sums::rows x Sums::columns numbers each, in bands of `band` rows of parts, so that
/// concurrent teams share parts of A and B in the L2; team: Sums::team_size threads, which hold the sums in registers.
/// k is processed in chunks of Sums::chunk: `Stages` - 1 chunks are in flight to scratch while the team computes with
/// another; one barrier per chunk. Blocks of A, B and C have 128 lines, a multiple of the lines of a part. Bound by the
/// fma units in float and the FP64 tensor cores in double: 0.92 and 0.97 of cuBLAS's rate at 4096^3, 0.94 at 8192^3
/// (one H200). A C with few parts for the multiprocessors is bound by the time of one part, because a sum is never
/// split between teams.
template <class ExecutionSpace, class Sums, int Stages, int Teams>
struct AddTileOnCuda {
  using Scalar = typename Sums::Scalar;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Sums::team_size, Teams>>;
  using Member = typename Policy::member_type;
  using Numbers = typename Sums::Numbers;
  static constexpr int block = gpu_block;
  static constexpr int band = 8;
  static constexpr int team_size = Sums::team_size;
  static constexpr int team_rows = Sums::rows; ///< rows and columns of C that a team computes
  static constexpr int team_columns = Sums::columns;
  static constexpr int chunk = Sums::chunk;
  static constexpr int size_a = chunk * Sums::stride_a;
  static constexpr int size_b = chunk * Sums::stride_b;
  static constexpr std::size_t scratch_bytes = sizeof(Scalar) * Stages * (size_a + size_b);

  TileStep<Scalar> step;

  KOKKOS_FUNCTION int row_parts() const { return (step.num_rows + Sums::rows - 1) / Sums::rows; }
  KOKKOS_FUNCTION int column_parts() const { return (step.num_columns + Sums::columns - 1) / Sums::columns; }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const buffers = ScratchArrays(team, 0, sizeof(Scalar) * Stages * (size_a + size_b), 128)
                             .template take<Scalar>(Stages * (size_a + size_b));
    int const rank = team.team_rank();
    int const in_band = team.league_rank() % (band * column_parts());
    int const first = team.league_rank() / (band * column_parts()) * band;
    int const height = row_parts() - first < band ? row_parts() - first : band;
    int const row = (first + in_band % height) * Sums::rows;
    int const column = in_band / height * Sums::columns;
    auto const from_a = lines_of(step.a, row);
    auto const from_b = lines_of(step.b, column);
    int const num_chunks = (step.depth + chunk - 1) / chunk;
    Sums own(rank);
    detail::load_sums(own, sums_of(row, column), step.is_first);
    for (int number = 0; number < Stages - 1; ++number) stage(buffers, rank, from_a, from_b, number);
    for (int number = 0; number < num_chunks; ++number) {
      await_scratch_copies<Stages - 2>();
      team.team_barrier(); // all threads see this chunk and have finished with the one before
      stage(buffers, rank, from_a, from_b, number + Stages - 1);
      auto const numbers = part_of(buffers, static_cast<std::size_t>(number % Stages * (size_a + size_b)));
      own.add_chunk(part_of(numbers, 0, size_a), part_of(numbers, size_a, size_b));
    }
    detail::store_sums(own, sums_of(row, column));
  }

private:
  /// The numbers of A or B from this line on, in the line's block.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar const> lines_of(ArrayView<Scalar const> const& packed, int line) const {
    auto const size = static_cast<std::size_t>(step.depth) * block;
    auto const within = static_cast<std::size_t>(line % block);
    return part_of(packed, static_cast<std::size_t>(line / block) * size + within, size - within);
  }

  /// The sums of a part from its first one on; rows have distance `block`.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar> sums_of(int row, int column) const {
    int const column_blocks = (step.num_columns + block - 1) / block;
    auto const number = static_cast<std::size_t>(row / block * column_blocks + column / block);
    return part_of(step.sums, number * block * block + static_cast<std::size_t>(row % block * block + column % block));
  }

  /// Starts to copy a chunk; numbers past the last k are zero.
  KOKKOS_FORCEINLINE_FUNCTION void stage(ArrayView<Scalar> const& buffers, int rank,
                                         ArrayView<Scalar const> const& from_a, ArrayView<Scalar const> const& from_b,
                                         int number) const {
    auto const to = part_of(buffers, static_cast<std::size_t>(number % Stages * (size_a + size_b)));
    stage_lines<Sums::rows, Sums::stride_a>(to, rank, from_a, number * chunk);
    stage_lines<Sums::columns, Sums::stride_b>(part_of(to, size_a), rank, from_b, number * chunk);
    end_scratch_copies();
  }

  /// Copies `Width` numbers for each k of a chunk; their lines in scratch have distance `Stride`.
  template <int Width, int Stride>
  KOKKOS_FORCEINLINE_FUNCTION void stage_lines(ArrayView<Scalar> const& to, int rank,
                                               ArrayView<Scalar const> const& from, int first) const {
    constexpr int across = Width / Sums::piece;
    constexpr int at_once = Sums::team_size / across;
    static_assert(Sums::team_size % across == 0 && chunk % at_once == 0);
    int const within = rank % across * Sums::piece;
    VARVE_UNROLL
    for (int i = 0; i < chunk; i += at_once) {
      int const k = i + rank / across;
      bool const is_there = first + k < step.depth;
      auto const place = is_there ? static_cast<std::size_t>(first + k) * block : 0;
      begin_scratch_copy(&piece_at<Numbers>(to, static_cast<std::size_t>(k * Stride + within)),
                         &piece_at<Numbers>(from, place + static_cast<std::size_t>(within)), is_there);
    }
  }
};

/// Shapes of teams, large to small. Large ones load fewer numbers from the L2 and from scratch per fma; small ones
/// occupy all multiprocessors with small tiles of C. A shape is used from `large_from` or `medium_from` of its teams
/// per multiprocessor on. Of all such limits these have the best worst-case share of cuBLAS's rate
/// (perf/results/products.md, one H200). In float, medium teams are slower than small ones at 2.4 teams per
/// multiprocessor, and than large ones if k is short.
template <class ExecutionSpace, class Scalar>
struct CudaShapes {
  using Large = AddTileOnCuda<ExecutionSpace, ThreadSums<float, 128, 128, 8, 8, 4, 32, 1>, 3, 2>;
  using Medium = AddTileOnCuda<ExecutionSpace, ThreadSums<float, 64, 64, 8, 8, 8, 32, 1>, 3, 4>;
  using Small = AddTileOnCuda<ExecutionSpace, ThreadSums<float, 32, 32, 4, 4, 4, 32, 3>, 4, 6>;
  static constexpr int large_from = 4;
  static constexpr int medium_from = 4;
};

/// In double, 6.1 large teams per multiprocessor take as long as 7, and are slower than medium ones.
template <class ExecutionSpace>
struct CudaShapes<ExecutionSpace, double> {
  using Large = AddTileOnCuda<ExecutionSpace, WarpSums<128, 128, 64, 32, 32>, 3, 1>;
  using Medium = AddTileOnCuda<ExecutionSpace, WarpSums<64, 64, 32, 32, 16>, 4, 3>;
  using Small = AddTileOnCuda<ExecutionSpace, WarpSums<32, 32, 16, 16, 32>, 4, 3>;
  static constexpr int large_from = 7;
  static constexpr int medium_from = 2;
};

namespace detail {

template <class Kernel>
inline constexpr std::size_t scratch_of_add_tile = Kernel::scratch_bytes + 128;

/// True if a kernel has at least this many teams and the GPU has the scratch.
template <class Kernel, class ExecutionSpace, class Scalar>
bool suits_add_tile(TileStep<Scalar> const& step, int fewest_teams) {
  Kernel const kernel{step};
  return kernel.row_parts() * kernel.column_parts() >= fewest_teams &&
         scratch_of_add_tile<Kernel> <= max_team_scratch<ExecutionSpace>();
}

/// Launches a kernel if it suits; returns whether it did. Does not fence.
template <class Kernel, class ExecutionSpace, class Scalar>
bool launch_add_tile(ExecutionSpace const& space, TileStep<Scalar> const& step, int fewest_teams) {
  if (!suits_add_tile<Kernel, ExecutionSpace>(step, fewest_teams)) return false;
  Kernel const kernel{step};
  typename Kernel::Policy policy(space, kernel.row_parts() * kernel.column_parts(), +Kernel::team_size);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch_of_add_tile<Kernel>)));
  launch_teams("varve::add_tile", policy, kernel);
  return true;
}

} // namespace detail

/// Launches AddTileOnCuda in the largest shape that gives all multiprocessors enough work (CudaShapes) and whose
/// scratch the GPU has, or else AddTileOnGpu. num_lanes: number of launches that run concurrently. Does not fence.
template <class ExecutionSpace, class Scalar>
void add_tile_on_gpu(ExecutionSpace const& space, TileStep<Scalar> const& step, [[maybe_unused]] int num_lanes) {
  if constexpr (kHasScratchCopies) {
    using Shapes = CudaShapes<ExecutionSpace, Scalar>;
    int const processors = num_processors(space);
    if (detail::launch_add_tile<typename Shapes::Large>(space, step, Shapes::large_from * processors / num_lanes) ||
        detail::launch_add_tile<typename Shapes::Medium>(space, step, Shapes::medium_from * processors / num_lanes) ||
        detail::launch_add_tile<typename Shapes::Small>(space, step, 0))
      return;
  }
  using Kernel = AddTileOnGpu<ExecutionSpace, Scalar>;
  int const row_blocks = (step.num_rows + gpu_block - 1) / gpu_block;
  int const column_blocks = (step.num_columns + gpu_block - 1) / gpu_block;
  typename Kernel::Policy policy(space, row_blocks * column_blocks, +Kernel::Sums::team_size);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes) + 128));
  launch_teams("varve::add_tile", policy, Kernel{step, column_blocks});
}

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
