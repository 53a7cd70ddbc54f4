#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "core/large_scratch.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"
#include "products/team_sums.hpp"

#include <cstddef>

namespace varve {

/// A step of a tile of C: packed blocks of 128 rows of A and of 128 columns of B, and the sums in blocks of 128 x 128.
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
  static constexpr int block = 128;
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
    load_sums(own, sums_of(row, column));
    for (int number = 0; number < Stages - 1; ++number) stage(buffers, rank, from_a, from_b, number);
    for (int number = 0; number < num_chunks; ++number) {
      await_scratch_copies<Stages - 2>();
      team.team_barrier(); // all threads see this chunk and have finished with the one before
      stage(buffers, rank, from_a, from_b, number + Stages - 1);
      auto const numbers = part_of(buffers, static_cast<std::size_t>(number % Stages * (size_a + size_b)));
      own.add_chunk(part_of(numbers, 0, size_a), part_of(numbers, size_a, size_b));
    }
    store_sums(own, sums_of(row, column));
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

  KOKKOS_FORCEINLINE_FUNCTION void load_sums(Sums& own, ArrayView<Scalar> const& kept) const {
    own.for_each_piece([&](Numbers& numbers, int row, int column) {
      clear(numbers);
      if (!step.is_first) copy(numbers, piece_at<Numbers>(kept, static_cast<std::size_t>(row * block + column)));
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION static void store_sums(Sums& own, ArrayView<Scalar> const& kept) {
    own.for_each_piece([&](Numbers const& numbers, int row, int column) {
      copy(piece_at<Numbers>(kept, static_cast<std::size_t>(row * block + column)), numbers);
    });
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
bool suits_add_tile(ExecutionSpace const& /*space*/, TileStep<Scalar> const& step, int fewest_teams) {
  Kernel const kernel{step};
  return kernel.row_parts() * kernel.column_parts() >= fewest_teams &&
         scratch_of_add_tile<Kernel> <= max_team_scratch<ExecutionSpace>();
}

/// Launches a kernel if it suits; returns whether it did. Does not fence.
template <class Kernel, class ExecutionSpace, class Scalar>
bool launch_add_tile(ExecutionSpace const& space, TileStep<Scalar> const& step, int fewest_teams) {
  if (!suits_add_tile<Kernel>(space, step, fewest_teams)) return false;
  Kernel const kernel{step};
  typename Kernel::Policy policy(space, kernel.row_parts() * kernel.column_parts(), +Kernel::team_size);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch_of_add_tile<Kernel>)));
  launch_teams("varve::add_tile", policy, kernel);
  return true;
}

} // namespace detail

/// The shape that add_tile_on_cuda() uses, for reports: 'L'arge, 'M'edium or 'S'mall, or '-' if none fits.
template <class ExecutionSpace, class Scalar>
char cuda_shape_of(ExecutionSpace const& space, TileStep<Scalar> const& step, int num_lanes) {
  using Shapes = CudaShapes<ExecutionSpace, Scalar>;
  int const processors = num_processors(space);
  if (detail::suits_add_tile<typename Shapes::Large>(space, step, Shapes::large_from * processors / num_lanes))
    return 'L';
  if (detail::suits_add_tile<typename Shapes::Medium>(space, step, Shapes::medium_from * processors / num_lanes))
    return 'M';
  return detail::suits_add_tile<typename Shapes::Small>(space, step, 0) ? 'S' : '-';
}

/// Launches AddTileOnCuda in the largest shape that gives all multiprocessors enough work (CudaShapes) and whose
/// scratch the GPU has. num_lanes: number of launches that run concurrently. Returns false if no shape's scratch fits:
/// then the caller launches AddTileOnGpu. Does not fence.
template <class ExecutionSpace, class Scalar>
bool add_tile_on_cuda(ExecutionSpace const& space, TileStep<Scalar> const& step, int num_lanes) {
  using Shapes = CudaShapes<ExecutionSpace, Scalar>;
  int const processors = num_processors(space);
  return detail::launch_add_tile<typename Shapes::Large>(space, step, Shapes::large_from * processors / num_lanes) ||
         detail::launch_add_tile<typename Shapes::Medium>(space, step, Shapes::medium_from * processors / num_lanes) ||
         detail::launch_add_tile<typename Shapes::Small>(space, step, 0);
}

} // namespace varve
