#pragma once

#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

namespace varve {

/// One layer of a mini-batch from a dense matrix, whose weights are 0 where there is no edge:
///   outputs(j, s) = finish(fma-chain over all inputs i, ascending, of weight(j, i) * inputs(i, s), bias(j))
/// The bits are those of TrainedForward: activations are finite, so a weight 0 changes at most the sign of a zero sum,
/// which changes no output (formats/dense_blocks.hpp). For hosts; GPUs take the same by trained_dense_gpu.hpp. league:
/// leaves x blocks of groups; team threads: groups of `group` outputs; vector lanes: packs of samples. Per input and
/// group it reads one line of inputs (256 bytes) for `group` fma per sample, whose sums stay in registers.
template <class ExecutionSpace, class Scalar>
struct TrainedDenseForward {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int group = 6; ///< outputs

  ConstDeviceArray<ExecutionSpace, Scalar> weights; ///< [output][input]
  ConstDeviceArray<ExecutionSpace, double> bias;    ///< by output
  Bounds<Scalar> bounds;
  ConstTrainingPanel<ExecutionSpace, Scalar> inputs;
  TrainingPanel<ExecutionSpace, Scalar> outputs;
  int num_inputs;
  int num_outputs;
  int stride; ///< lines of a leaf in `outputs`: num_outputs, or more if these are some outputs of a layer
  int num_blocks;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const leaf = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const num_groups = (num_outputs + group - 1) / group;
    int const first = static_cast<int>(static_cast<std::int64_t>(num_groups) * block / num_blocks);
    int const last = static_cast<int>(static_cast<std::int64_t>(num_groups) * (block + 1) / num_blocks);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
      for (int number = first + team.team_rank(); number < last; number += team.team_size()) {
        int const row = number * group;
        if (row + group <= num_outputs) {
          forward_rows<group>(leaf, row, lane);
        } else {
          for (int left = row; left < num_outputs; ++left) forward_rows<1>(leaf, left, lane);
        }
      }
    });
  }

  /// Count outputs from `row` on.
  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION void forward_rows(int leaf, int row, int lane) const {
    auto const width = static_cast<std::size_t>(num_inputs);
    std::size_t const first_line = static_cast<std::size_t>(leaf) * width;
    auto const* const own = elements_of(weights, static_cast<std::size_t>(row) * width, Count * width);
    LanePacks<Tile> sum[Count];
    VARVE_UNROLL
    for (int i = 0; i < Count; ++i) sum[i].clear_all();
    for (std::size_t input = 0; input < width; ++input) {
      LanePacks<Tile> value;
      value.load(inputs(first_line + input), lane);
      VARVE_UNROLL
      for (int i = 0; i < Count; ++i) {
        Scalar const weight = own[static_cast<std::size_t>(i) * width + input];
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum[i].pack[k], weight, value.pack[k]);
      }
    }
    std::size_t const line = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(stride);
    VARVE_UNROLL
    for (int i = 0; i < Count; ++i) {
      double const own_bias = bias(row + i);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) finish_with_curve(sum[i].pack[k], own_bias, bounds);
      sum[i].store(outputs(line + static_cast<std::size_t>(row + i)), lane);
    }
  }
};

/// Launches TrainedDenseForward for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar>
void trained_dense_forward_on_host(ExecutionSpace const& space, TrainedDenseForward<ExecutionSpace, Scalar> kernel,
                                   int num_leaves) {
  using Kernel = TrainedDenseForward<ExecutionSpace, Scalar>;
  using Tune = TrainingTuning<ExecutionSpace>;
  if (num_leaves == 0 || kernel.num_outputs == 0) return;
  int const num_groups = (kernel.num_outputs + Kernel::group - 1) / Kernel::group;
  kernel.num_blocks = Tune::forward_blocks(num_processors(space), num_groups, num_leaves);
  typename Kernel::Policy const policy(space, num_leaves * kernel.num_blocks, Tune::team_size, Kernel::Tile::num_lanes);
  launch_teams("varve::trained_dense_forward", policy, kernel);
}

} // namespace varve
