#pragma once

#include "formats/trained_edges.hpp"
#include "kernels/derivative.hpp"
#include "kernels/line_half.hpp"
#include "kernels/tuning/training.hpp"

namespace varve {

/// What FusedBackward and NeuronSums compute, on GPUs, for layers with so few outputs that half lines of all
/// their errors fit team scratch; halves of leaves count as leaves in `levels` and `bias_levels`.
/// league: runs of halves of leaves x blocks of inputs (each num_blocks-th); team threads: inputs; vector lanes: packs
/// of samples. Per block and half of a leaf it reads the half lines of all errors once from the L2; per edge and leaf,
/// 256 bytes from scratch.
template <class ExecutionSpace, class Scalar, bool HasInputErrors>
struct ScratchBackward {
  using Half = LineHalf<ExecutionSpace, Scalar>;
  using Tile = typename Half::Tile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<1024, 1>>;
  using Member = typename Policy::member_type;
  using Weights = ConstDeviceArray<ExecutionSpace, Scalar>;
  using Sums = LeafSums<Tile, Half::num_lanes>;
  using Lines = typename Half::Lines;
  using Levels = TreeLevels<ExecutionSpace, Scalar>;

  EdgeRows<ExecutionSpace> edges;                     ///< the edges, by input
  Weights weights;                                    ///< weights in the order of `edges`
  ConstTrainingPanel<ExecutionSpace, Scalar> inputs;  ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar> errors;  ///< errors of this layer's outputs
  TrainingPanel<ExecutionSpace, Scalar> input_errors; ///< result: errors of the outputs of the layer before
  Derivative<Scalar> derivative;                      ///< derivative of the activation function of the layer before
  Levels levels;                                      ///< result: gradients of weights
  Levels bias_levels;                                 ///< result: gradients of biases, if it holds any
  int num_outputs;
  int stride; ///< lines of a leaf in `inputs` and `input_errors`: rows of `edges`, or more if these are some inputs
  int num_blocks;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const run = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const first = run * levels.leaves_per_run;
    int const last =
        first + levels.leaves_per_run < levels.num_leaves ? first + levels.leaves_per_run : levels.num_leaves;
    auto const lines = Half::in_scratch(team, num_outputs);
    int const rank = team.team_rank();
    for (int unit = first; unit < last; ++unit) {
      int const leaf = unit / Half::halves;
      int const half = unit % Half::halves;
      if (unit != first) team.team_barrier();
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Half::num_lanes), [&](int lane) {
        Half::bring(lines, errors, static_cast<std::size_t>(leaf) * static_cast<std::size_t>(num_outputs), num_outputs,
                    half, rank, lane);
      });
      team.team_barrier();
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Half::num_lanes),
                           [&](int lane) { backward_block(lines, run, unit - first, leaf, half, block, rank, lane); });
    }
  }

private:
  /// The rows and the sums of errors of a block, in half of a leaf, after `before` halves of the run.
  KOKKOS_FORCEINLINE_FUNCTION void backward_block(Lines const& lines, int run, int before, int leaf, int half,
                                                  int block, int rank, int lane) const {
    for (int row = block + rank * num_blocks; row < edges.num_rows; row += num_blocks * Half::team_size)
      backward_row(lines, run, before, leaf, half, row, lane);
    int const groups = bias_levels.num_sums == 0 ? 0 : (num_outputs + Sums::count - 1) / Sums::count;
    for (int group = block + rank * num_blocks; group < groups; group += num_blocks * Half::team_size)
      add_errors(lines, run, before, group * Sums::count, lane);
  }

  KOKKOS_FORCEINLINE_FUNCTION void backward_row(Lines const& lines, int run, int before, int leaf, int half, int row,
                                                int lane) const {
    auto const line = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(row);
    LanePacks<Tile> x;
    x.load(inputs(line), half * Half::num_lanes + lane);
    LanePacks<Tile> sum;
    sum.clear_all();
    std::uint32_t const end = edges.row_pointers(row + 1);
    std::uint32_t edge = edges.row_pointers(row);
    EdgesAhead<EdgeRows<ExecutionSpace>, Weights, Half::num_lanes> next;
    next.load(edges, weights, edge, end, lane);
    for (; edge < end; edge += Sums::count) {
      auto const now = next;
      next.load(edges, weights, edge + Sums::count, end, lane);
      Sums sums;
      int const count = end - edge < Sums::count ? static_cast<int>(end - edge) : Sums::count;
      if (count == Sums::count) {
        VARVE_UNROLL
        for (int i = 0; i < Sums::count; ++i)
          add_edge(lines, now.neuron_of(i), now.weight_of(i), i, lane, x, sum, sums);
      } else {
        VARVE_UNROLL
        for (int i = 0; i < Sums::count; ++i) { // a loop to `count` could not be unrolled: sums would leave registers
          if (i < count) {
            add_edge(lines, now.neuron_of(i), now.weight_of(i), i, lane, x, sum, sums);
          } else {
            sums.clear_sum(i);
          }
        }
      }
      levels.template add<Sums>(run, before, edge, count, lane, sums.total(lane));
    }
    if constexpr (HasInputErrors) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) derivative.apply(sum.pack[k], x.pack[k]);
      sum.store(input_errors(line), half * Half::num_lanes + lane);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_edge(Lines const& lines, int neuron, Scalar weight, int i, int lane,
                                                   LanePacks<Tile> const& x, LanePacks<Tile>& sum, Sums& sums) {
    LanePacks<Tile> error;
    Half::load(error, lines, neuron, lane);
    if constexpr (HasInputErrors) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum.pack[k], weight, error.pack[k]);
    }
    sums.set_sum(i, x, error);
  }

  /// The sums of the errors of neighbouring neurons.
  KOKKOS_FORCEINLINE_FUNCTION void add_errors(Lines const& lines, int run, int before, int first, int lane) const {
    int const count = num_outputs - first < Sums::count ? num_outputs - first : Sums::count;
    Sums sums;
    VARVE_UNROLL
    for (int i = 0; i < Sums::count; ++i) {
      if (i < count) {
        LanePacks<Tile> error;
        Half::load(error, lines, first + i, lane);
        sums.set_sum(i, error);
      } else {
        sums.clear_sum(i);
      }
    }
    bias_levels.template add<Sums>(run, before, static_cast<std::size_t>(first), count, lane, sums.total(lane));
  }
};

/// Launches ScratchBackward. Does not fence. `kernel.levels` must be for the runs of TrainingTuning::halves_per_run().
template <class ExecutionSpace, class Scalar, bool HasInputErrors>
void scratch_backward(ExecutionSpace const& space, ScratchBackward<ExecutionSpace, Scalar, HasInputErrors> kernel) {
  using Kernel = ScratchBackward<ExecutionSpace, Scalar, HasInputErrors>;
  using Half = typename Kernel::Half;
  if (kernel.levels.num_leaves == 0 || kernel.num_outputs == 0) return;
  kernel.num_blocks = TrainingTuning<ExecutionSpace>::half_blocks(num_processors(space), kernel.edges.num_rows,
                                                                  kernel.levels.num_leaves);
  typename Kernel::Policy policy(space, kernel.levels.num_runs() * kernel.num_blocks, +Half::team_size,
                                 +Half::num_lanes);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Half::scratch_bytes(kernel.num_outputs)) + 128));
  launch_teams(HasInputErrors ? "varve::scratch_backward" : "varve::scratch_gradient", policy, kernel);
}

} // namespace varve
