#pragma once

#include "core/views.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Hosts: the product of a dense matrix with the lines of all neurons in each leaf of a mini-batch:
///
///   sums(row, s) = fma-chain over k, ascending, of matrix(row, k) * lines(k, s)
///
/// `finish(sum, leaf, row, lane)` stores a row. league: leaves x blocks of groups; team threads: groups of `group`
/// rows; vector lanes: packs of samples. Per k and group it reads one line (256 bytes) for `group` fma per sample,
/// whose sums stay in registers. Bound by fma.
template <class ExecutionSpace, class Scalar, class Finish>
struct LeafProductOnHost {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int group = 6; ///< rows

  ConstDeviceArray<ExecutionSpace, Scalar> matrix; ///< [row][k]
  ConstTrainingPanel<ExecutionSpace, Scalar> lines;
  int num_rows;
  int depth; ///< numbers of a row: neurons whose lines are read
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

  /// Count rows from `row` on.
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

/// Launches LeafProductOnHost for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar, class Finish>
void leaf_product_on_host(ExecutionSpace const& space, ConstDeviceArray<ExecutionSpace, Scalar> const& matrix,
                          ConstTrainingPanel<ExecutionSpace, Scalar> const& lines, int num_rows, int depth,
                          int num_leaves, Finish const& finish) {
  using Kernel = LeafProductOnHost<ExecutionSpace, Scalar, Finish>;
  using Tune = TrainingTuning<ExecutionSpace>;
  if (num_leaves == 0 || num_rows == 0) return;
  int const num_groups = (num_rows + Kernel::group - 1) / Kernel::group;
  int const num_blocks = Tune::forward_blocks(num_processors(space), num_groups, num_leaves);
  typename Kernel::Policy const policy(space, num_leaves * num_blocks, Tune::team_size, Kernel::Tile::num_lanes);
  launch_teams("varve::leaf_product", policy, Kernel{matrix, lines, num_rows, depth, num_blocks, finish});
}

} // namespace varve
