#pragma once

#include "kernels/derivative.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

namespace varve {

/// Backward pass of one layer from a dense matrix, whose weights are 0 where there is no edge: what FusedBackward
/// computes, but gradients for all places (i, j):
///
///   input_errors(i, s) = act'(inputs(i, s)) * fma-chain over all j, ascending, of weight(j, i) * errors(j, s)
///
///   gradient(j, i) = sum over s of inputs(i, s) * errors(j, s), added up as network/leaf.hpp says, into `levels`
///
/// The bits at edges are those of FusedBackward: with finite errors, a weight 0 changes at most the sign of a zero sum,
/// and no sign of a zero error changes a gradient, because those are never -0. (Errors that are not finite end the
/// training in either case.) Gradients of biases go to `bias_levels`, by NeuronSums. For hosts; GPUs compute the same
/// by trained_dense_gpu.hpp. league: runs of leaves x blocks of groups; team threads: groups of `group` inputs; vector
/// lanes: packs of samples. Each line of errors is read once for a group.
template <class ExecutionSpace, class Scalar, bool HasInputErrors>
struct TrainedDenseBackward {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Static>>;
  using Member = typename Policy::member_type;
  using Sums = LeafSums<Tile>;
  static constexpr int group = 2; ///< inputs

  ConstDeviceArray<ExecutionSpace, Scalar> weights;   ///< [input][output]
  ConstTrainingPanel<ExecutionSpace, Scalar> inputs;  ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar> errors;  ///< errors of this layer's outputs
  TrainingPanel<ExecutionSpace, Scalar> input_errors; ///< result: errors of the outputs of the layer before
  Derivative<Scalar> derivative;                      ///< derivative of the activation function of the layer before
  TreeLevels<ExecutionSpace, Scalar> levels;          ///< sums: [input][output]
  TreeLevels<ExecutionSpace, Scalar> bias_levels;     ///< result: gradients of biases, if it holds any
  int num_inputs;
  int num_outputs;
  int stride; ///< lines of a leaf in `inputs` and `input_errors`: num_inputs, or more if these are some inputs of a
              ///< layer
  int num_blocks;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const run = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const num_groups = (num_inputs + group - 1) / group;
    int const first_group = static_cast<int>(static_cast<std::int64_t>(num_groups) * block / num_blocks);
    int const last_group = static_cast<int>(static_cast<std::int64_t>(num_groups) * (block + 1) / num_blocks);
    int const first = run * levels.leaves_per_run;
    int const last =
        first + levels.leaves_per_run < levels.num_leaves ? first + levels.leaves_per_run : levels.num_leaves;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
      for (int leaf = first; leaf < last; ++leaf) {
        for (int number = first_group + team.team_rank(); number < last_group; number += team.team_size()) {
          int const row = number * group;
          if (row + group <= num_inputs) {
            backward_rows<group>(run, leaf, row, lane);
          } else {
            for (int left = row; left < num_inputs; ++left) backward_rows<1>(run, leaf, left, lane);
          }
        }
      }
    });
  }

private:
  /// What a thread holds of `Count` inputs.
  template <int Count>
  struct Rows {
    LanePacks<Tile> x[Count];
    LanePacks<Tile> sum[Count]; ///< of weight * error
    Sums gradients[Count];
  };

  /// Count inputs from `row` on.
  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION void backward_rows(int run, int leaf, int row, int lane) const {
    auto const line = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(row);
    auto const width = static_cast<std::size_t>(num_outputs);
    Rows<Count> rows;
    VARVE_UNROLL
    for (int r = 0; r < Count; ++r) {
      rows.x[r].load(inputs(line + static_cast<std::size_t>(r)), lane);
      rows.sum[r].clear_all();
    }
    for (int output = 0; output < num_outputs; output += Sums::count) {
      int const count = num_outputs - output < Sums::count ? num_outputs - output : Sums::count;
      if (count == Sums::count) {
        VARVE_UNROLL
        for (int i = 0; i < Sums::count; ++i) add_output(leaf, row, output + i, i, lane, rows);
      } else {
        VARVE_UNROLL
        for (int i = 0; i < Sums::count; ++i) {
          if (i < count) {
            add_output(leaf, row, output + i, i, lane, rows);
          } else {
            VARVE_UNROLL
            for (int r = 0; r < Count; ++r) rows.gradients[r].clear_sum(i);
          }
        }
      }
      VARVE_UNROLL
      for (int r = 0; r < Count; ++r) {
        std::size_t const sum = static_cast<std::size_t>(row + r) * width + static_cast<std::size_t>(output);
        levels.template add<Sums>(run, leaf - run * levels.leaves_per_run, sum, count, lane,
                                  rows.gradients[r].total(lane));
      }
    }
    if constexpr (HasInputErrors) {
      VARVE_UNROLL
      for (int r = 0; r < Count; ++r) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) derivative.apply(rows.sum[r].pack[k], rows.x[r].pack[k]);
        rows.sum[r].store(input_errors(line + static_cast<std::size_t>(r)), lane);
      }
    }
  }

  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION void add_output(int leaf, int row, int output, int i, int lane, Rows<Count>& rows) const {
    auto const width = static_cast<std::size_t>(num_outputs);
    LanePacks<Tile> error;
    error.load(errors(static_cast<std::size_t>(leaf) * width + static_cast<std::size_t>(output)), lane);
    VARVE_UNROLL
    for (int r = 0; r < Count; ++r) {
      if constexpr (HasInputErrors) {
        Scalar const weight = weights(static_cast<std::size_t>(row + r) * width + static_cast<std::size_t>(output));
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(rows.sum[r].pack[k], weight, error.pack[k]);
      }
      rows.gradients[r].set_sum(i, rows.x[r], error);
    }
  }
};

/// Launches TrainedDenseBackward and NeuronSums. Does not fence. `kernel.levels` must be for leaves_per_run() of the
/// tuning.
template <class ExecutionSpace, class Scalar, bool HasInputErrors>
void trained_dense_backward_on_host(ExecutionSpace const& space,
                                    TrainedDenseBackward<ExecutionSpace, Scalar, HasInputErrors> kernel) {
  using Kernel = TrainedDenseBackward<ExecutionSpace, Scalar, HasInputErrors>;
  using Tune = TrainingTuning<ExecutionSpace>;
  if (kernel.bias_levels.num_sums != 0)
    neuron_sums(space, NeuronSums<ExecutionSpace, Scalar>{kernel.errors, kernel.bias_levels, kernel.num_outputs, 1});
  if (kernel.levels.num_leaves == 0 || kernel.num_inputs == 0) return;
  kernel.num_blocks = Tune::num_blocks(num_processors(space), kernel.num_inputs);
  typename Kernel::Policy const policy(space, kernel.levels.num_runs() * kernel.num_blocks, Tune::team_size,
                                       Kernel::Tile::num_lanes);
  launch_teams(HasInputErrors ? "varve::trained_dense_backward" : "varve::first_dense_gradient", policy, kernel);
}

/// totals(first + i) = the sum of all leaves at place places(i), never -0: the gradients at edges, from those at all
/// places. Index: a chunk of neighbouring edges (CPUs: 64, GPUs: one). Bound by memory.
template <class ExecutionSpace, class Scalar>
struct PickLevels {
  static constexpr std::size_t chunk = kOnHost<ExecutionSpace> ? 64 : 1;

  TreeLevels<ExecutionSpace, Scalar> levels;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places;
  DeviceArray<ExecutionSpace, Scalar> totals;
  std::size_t first;

  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    std::size_t const begin = index * chunk;
    std::size_t const end = begin + chunk < places.size() ? begin + chunk : places.size();
    if (levels.has_one_subtree()) { // a loop of its own, which compilers vectorize
      for (std::size_t i = begin; i < end; ++i) totals(first + i) = levels.only_total(places(i));
    } else {
      for (std::size_t i = begin; i < end; ++i) totals(first + i) = levels.total(places(i));
    }
  }
};

/// Launches PickLevels. Does not fence.
template <class ExecutionSpace, class Scalar>
void pick_levels(ExecutionSpace const& space, PickLevels<ExecutionSpace, Scalar> const& kernel) {
  constexpr std::size_t chunk = PickLevels<ExecutionSpace, Scalar>::chunk;
  if (kernel.levels.num_leaves == 0 || kernel.places.size() == 0) return;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  Kokkos::parallel_for("varve::pick_levels", Policy(space, 0, (kernel.places.size() + chunk - 1) / chunk), kernel);
}

} // namespace varve
