#pragma once

#include "kernels/training_tile.hpp"

#include <cstddef>

namespace varve {

/// GPUs: the gradients of a layer at all places (i, j), and those of its biases,
///
///   gradient(i, j) = sum over s of inputs(i, s) * errors(j, s),    bias(j) = sum over s of errors(j, s),
///
/// added up as network/leaf.hpp says, into `levels` and `bias_levels`, which have the same runs. league: runs of leaves
/// x parts of 64 inputs and 16 * thread_columns outputs; team: 256 threads with 4 x thread_columns sums each. A team
/// brings the lines of its neurons in a leaf to scratch, one pack longer than needed, so that neighbouring lines begin
/// in different banks. A thread adds up a leaf by itself: all chains, and their tree in registers, without shuffles.
/// Per chain it loads its lines' numbers from scratch for 64 fma (double: 32) and 16 (8) additions. Bound by the fma
/// units.
template <class ExecutionSpace, class Scalar>
struct LeafGradientOnGpu {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  static constexpr int team_size = 256;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, 2>>;
  using Member = typename Policy::member_type;
  using Numbers = typename Tile::PackType;
  static constexpr int threads_across = 16; ///< of a team, and as many down
  static constexpr int thread_rows = 4;
  static constexpr int thread_columns = sizeof(Scalar) == 4 ? 4 : 2;
  static constexpr int rows = threads_across * thread_rows;
  static constexpr int columns = threads_across * thread_columns;
  static constexpr int packs = Tile::packs_per_lane * Tile::num_lanes; ///< of a line
  static constexpr int spacing = packs + 1;                            ///< of lines in scratch, in packs
  static constexpr std::size_t scratch_bytes = sizeof(Numbers) * spacing * (rows + columns);
  static_assert(rows * packs % team_size == 0 && columns * packs % team_size == 0);

  ConstTrainingPanel<ExecutionSpace, Scalar> inputs; ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar> errors; ///< errors of this layer's outputs
  TreeLevels<ExecutionSpace, Scalar> levels;         ///< sums: [input][output]
  TreeLevels<ExecutionSpace, Scalar> bias_levels;    ///< of all outputs, or of none
  int num_inputs;
  int num_outputs;
  int stride; ///< lines of a leaf in `inputs`: num_inputs, or more if these are some inputs of a layer

  static int num_parts(int num_inputs, int num_outputs) {
    return ((num_inputs + rows - 1) / rows) * ((num_outputs + columns - 1) / columns);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const across = (num_outputs + columns - 1) / columns;
    int const parts = across * ((num_inputs + rows - 1) / rows);
    int const run = team.league_rank() / parts;
    int const part = team.league_rank() % parts;
    int const row = part / across * rows;
    int const column = part % across * columns;
    int const rank = team.team_rank();
    ScratchArrays scratch(team, 0, scratch_bytes, 128);
    auto const x = scratch.template take<Numbers>(rows * spacing);
    auto const e = scratch.template take<Numbers>(columns * spacing);
    int const first = run * levels.leaves_per_run;
    int const last =
        first + levels.leaves_per_run < levels.num_leaves ? first + levels.leaves_per_run : levels.num_leaves;
    for (int leaf = first; leaf < last; ++leaf) {
      if (leaf != first) team.team_barrier();
      bring<rows>(x, inputs, leaf, row, num_inputs, stride, rank);
      bring<columns>(e, errors, leaf, column, num_outputs, num_outputs, rank);
      team.team_barrier();
      add_leaf(x, e, run, leaf - first, row, column, rank);
      if (row == 0 && bias_levels.num_sums != 0) add_bias(e, run, leaf - first, column, rank);
    }
  }

private:
  using Lines = ArrayView<Numbers>;

  struct Sums {
    Scalar of[thread_rows][thread_columns];
  };

  /// Brings `Count` lines of a leaf to scratch, from neuron `first` on; those past the last neuron are zero. of_leaf:
  /// lines of each leaf in the panel.
  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION static void bring(Lines const& to,
                                                ConstTrainingPanel<ExecutionSpace, Scalar> const& panel, int leaf,
                                                int first, int num_neurons, int of_leaf, int rank) {
    constexpr int loads = Count * packs / team_size;
    auto const line = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(of_leaf);
    Numbers numbers[loads];
    VARVE_UNROLL
    for (int i = 0; i < loads; ++i) {
      int const place = i * team_size + rank;
      int const neuron = first + place / packs;
      clear(numbers[i]);
      if (neuron < num_neurons) copy(numbers[i], panel(line + static_cast<std::size_t>(neuron)).pack[place % packs]);
    }
    VARVE_UNROLL
    for (int i = 0; i < loads; ++i) {
      int const place = i * team_size + rank;
      copy(to(static_cast<std::size_t>(place / packs * spacing + place % packs)), numbers[i]);
    }
  }

  /// What lane `lane` has of a line in scratch.
  KOKKOS_FORCEINLINE_FUNCTION static LanePacks<Tile> lane_of(Lines const& lines, int line, int lane) {
    LanePacks<Tile> found;
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k)
      copy(found.pack[k], lines(static_cast<std::size_t>(line * spacing + k * Tile::num_lanes + lane)));
    return found;
  }

  /// Adds a leaf's sums of a thread, whose rows and columns are 16 apart, after `before` leaves of the run.
  KOKKOS_FORCEINLINE_FUNCTION void add_leaf(Lines const& x, Lines const& e, int run, int before, int row, int column,
                                            int rank) const {
    int const own_row = rank / threads_across;
    int const own_column = rank % threads_across;
    Sums sums;
    add_lanes<0, Tile::num_lanes>(sums, x, e, own_row, own_column);
    VARVE_UNROLL
    for (int r = 0; r < thread_rows; ++r) {
      VARVE_UNROLL
      for (int c = 0; c < thread_columns; ++c) {
        int const i = row + own_row + r * threads_across;
        int const j = column + own_column + c * threads_across;
        if (i < num_inputs && j < num_outputs)
          levels.add_one(run, before,
                         static_cast<std::size_t>(i) * static_cast<std::size_t>(num_outputs) +
                             static_cast<std::size_t>(j),
                         sums.of[r][c]);
      }
    }
  }

  /// The tree over the chains of `Count` lanes. A template, not a loop, so that all sums stay in registers.
  template <int First, int Count>
  KOKKOS_FORCEINLINE_FUNCTION static void add_lanes(Sums& sums, Lines const& x, Lines const& e, int row, int column) {
    if constexpr (Count > 1) {
      add_lanes<First, Count / 2>(sums, x, e, row, column);
      Sums upper;
      add_lanes<First + Count / 2, Count / 2>(upper, x, e, row, column);
      VARVE_UNROLL
      for (int r = 0; r < thread_rows; ++r) {
        VARVE_UNROLL
        for (int c = 0; c < thread_columns; ++c) sums.of[r][c] = sums.of[r][c] + upper.of[r][c];
      }
    } else {
      LanePacks<Tile> of_row[thread_rows];
      VARVE_UNROLL
      for (int r = 0; r < thread_rows; ++r) of_row[r] = lane_of(x, row + r * threads_across, First);
      VARVE_UNROLL
      for (int c = 0; c < thread_columns; ++c) {
        auto const of_column = lane_of(e, column + c * threads_across, First);
        VARVE_UNROLL
        for (int r = 0; r < thread_rows; ++r) sums.of[r][c] = chain_of(of_row[r], of_column);
      }
    }
  }

  /// A chain of a gradient, as LeafSums::set_sum() adds it up.
  KOKKOS_FORCEINLINE_FUNCTION static Scalar chain_of(LanePacks<Tile> const& x, LanePacks<Tile> const& e) {
    Scalar sum = 0;
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      VARVE_UNROLL
      for (int i = 0; i < Tile::pack_width; ++i) sum = Kokkos::fma(x.pack[k].lane[i], e.pack[k].lane[i], sum);
    }
    return sum;
  }

  /// Adds the sums of the errors in a leaf, one of a thread.
  KOKKOS_FORCEINLINE_FUNCTION void add_bias(Lines const& e, int run, int before, int column, int rank) const {
    if (rank >= columns || column + rank >= num_outputs) return;
    bias_levels.add_one(run, before, static_cast<std::size_t>(column + rank), errors_of<0, Tile::num_lanes>(e, rank));
  }
  template <int First, int Count>
  KOKKOS_FORCEINLINE_FUNCTION static Scalar errors_of(Lines const& e, int line) {
    if constexpr (Count > 1) {
      return errors_of<First, Count / 2>(e, line) + errors_of<First + Count / 2, Count / 2>(e, line);
    } else {
      auto const own = lane_of(e, line, First);
      Scalar sum = 0;
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) {
        VARVE_UNROLL
        for (int i = 0; i < Tile::pack_width; ++i) sum = sum + own.pack[k].lane[i];
      }
      return sum;
    }
  }
};

/// Launches LeafGradientOnGpu. Does not fence.
template <class ExecutionSpace, class Scalar>
void leaf_gradient_on_gpu(ExecutionSpace const& space, LeafGradientOnGpu<ExecutionSpace, Scalar> const& kernel) {
  using Kernel = LeafGradientOnGpu<ExecutionSpace, Scalar>;
  int const parts = Kernel::num_parts(kernel.num_inputs, kernel.num_outputs);
  if (kernel.levels.num_leaves == 0 || parts == 0) return;
  typename Kernel::Policy policy(space, kernel.levels.num_runs() * parts, +Kernel::team_size);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes) + 128));
  launch_teams("varve::leaf_gradient", policy, kernel);
}

} // namespace varve
