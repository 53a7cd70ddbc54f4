#pragma once

#include "core/host_vector.hpp"
#include "core/pack_sums.hpp"
#include "core/views.hpp"
#include "kernels/training_tile.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace varve {

/// Hosts: the gradients of a layer at all places (i, j),
///
///   gradient(i, j) = sum over s of inputs(i, s) * errors(j, s),
///
/// in the order of network/leaf.hpp, into `levels`. A vector holds the sums of neighbouring outputs, so a thread adds
/// the chains of a leaf and the leaves by whole vectors, without shuffles. league: runs of leaves x parts of inputs x
/// blocks of up to `vectors` vectors of outputs, as equal as possible; team: one thread. It processes `group` leaves at
/// a time: it copies the errors of its block to scratch, sample by sample, and then adds products for `rows` inputs at
/// a time. Their sums stay in registers for a chain, and in the L1 until the group's sums are added to `levels`. Per
/// sample it loads `vectors` vectors of errors and broadcasts `rows` activations for rows * vectors fma. Bound by fma.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct LeafGradientOnHost {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  using Register = typename host::FmaRegister<Scalar, kLeafChains<Scalar>>::type;

  static constexpr std::size_t register_bytes() {
    if constexpr (std::is_void_v<Register>) {
      return 32;
    } else {
      return sizeof(Register);
    }
  }

  static constexpr int chains = kLeafChains<Scalar>;
  static constexpr int samples = Tile::num_samples; ///< of a line
  static constexpr int width = static_cast<int>(register_bytes() / sizeof(Scalar));
  /// The sums fill 18 of 32 vector registers, or 8 of 16.
  static constexpr int rows = register_bytes() == 64 ? 6 : 4;
  static constexpr int vectors = register_bytes() == 64 ? 3 : 2;
  static constexpr int columns = vectors * width;
  static constexpr int group = 16; ///< most leaves of a group: their errors fit the L2
  static constexpr int group_levels = 5;
  using Numbers = Pack<Scalar, width>;

  ConstTrainingPanel<ExecutionSpace, Scalar, Links> inputs; ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> errors; ///< errors of this layer's outputs
  TreeLevels<ExecutionSpace, Scalar> levels;                ///< result: [input][output]
  int num_inputs;
  int num_outputs;
  int stride;    ///< lines of a leaf in `inputs`: num_inputs, or more if the inputs are a part of a layer's
  int num_parts; ///< parts of the inputs

  static constexpr std::size_t errors_size = static_cast<std::size_t>(group) * samples * vectors; ///< in vectors
  static constexpr std::size_t scratch_bytes = errors_size * sizeof(Numbers);

  KOKKOS_FORCEINLINE_FUNCTION int num_vectors() const { return (num_outputs + width - 1) / width; }
  KOKKOS_FORCEINLINE_FUNCTION int num_blocks() const { return (num_vectors() + vectors - 1) / vectors; }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const across = num_blocks();
    int const task = team.league_rank() % (num_parts * across);
    int const run = team.league_rank() / (num_parts * across);
    int const first_vector = num_vectors() * (task % across) / across;
    int const last_vector = num_vectors() * (task % across + 1) / across;
    int const part = task / across;
    int const num_groups = (num_inputs + rows - 1) / rows;
    int const first_row = num_groups * part / num_parts * rows;
    int const last_row = least(num_groups * (part + 1) / num_parts * rows, num_inputs);
    auto const lines = ScratchArrays(team, 1, scratch_bytes, 64).template take<Numbers>(errors_size);
    int const first = levels.first_of(run);
    int const last = levels.end_of(run);
    for (int leaf = first; leaf < last; leaf += group) {
      int const count = least(group, last - leaf);
      Place const place{run, leaf - first, leaf, count, first_row, first_vector * width, last_vector - first_vector};
      stage_errors(lines, place);
      add_some_vectors<vectors>(lines, place, last_row);
    }
  }

private:
  /// Place of some sums: `count` leaves from `leaf` on, after `before` leaves of the run; inputs from `row` on;
  /// `vectors` vectors of outputs from `column` on.
  struct Place {
    int run, before, leaf, count, row, column, vectors;
  };

  /// The sums of `Rows` inputs.
  template <int Rows, int Vectors>
  struct Sums {
    Numbers of[Rows][Vectors];

    KOKKOS_FORCEINLINE_FUNCTION void add(Sums const& other) {
      VARVE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        VARVE_UNROLL
        for (int v = 0; v < Vectors; ++v) add_pack(of[r][v], other.of[r][v]);
      }
    }
  };

  KOKKOS_FORCEINLINE_FUNCTION static int least(int one, int other) { return one < other ? one : other; }

  /// Copies the errors of a block of outputs in some leaves to scratch: [leaf][turn of the chain][link][output], 0 past
  /// the last output of a vector.
  KOKKOS_FORCEINLINE_FUNCTION void stage_errors(ArrayView<Numbers> const& lines, Place const& place) const {
    for (int l = 0; l < place.count; ++l) {
      auto* const to = reinterpret_cast<Scalar*>(&lines(static_cast<std::size_t>(l) * samples * vectors));
      for (int j = 0; j < place.vectors * width; ++j) {
        typename Tile::Line line{};
        if (place.column + j < num_outputs) line = errors(line_of(place.leaf + l, num_outputs, place.column + j));
        VARVE_UNROLL
        for (int chain = 0; chain < chains; ++chain) {
          VARVE_UNROLL
          for (int k = 0; k < Links; ++k) to[(reversed(chain) * Links + k) * columns + j] = line.pack[k].lane[chain];
        }
      }
    }
  }

  /// Adds the gradients of the inputs up to last_row over the leaves of a group, for the vectors of outputs of the
  /// block: at most Most.
  template <int Most>
  KOKKOS_FORCEINLINE_FUNCTION void add_some_vectors(ArrayView<Numbers> const& lines, Place place, int last_row) const {
    if constexpr (Most > 1) {
      if (place.vectors < Most) return add_some_vectors<Most - 1>(lines, place, last_row);
    }
    for (; place.row + rows <= last_row; place.row += rows) add_rows<rows, Most>(lines, place);
    for (; place.row < last_row; ++place.row) add_rows<1, Most>(lines, place);
  }

  /// Adds the gradients of `Rows` inputs over the leaves of a group.
  template <int Rows, int Vectors>
  KOKKOS_FORCEINLINE_FUNCTION void add_rows(ArrayView<Numbers> const& lines, Place const& place) const {
    Sums<Rows, Vectors> tree[group_levels]; // level k: the sum of 2^k leaves
    for (int l = 0; l < place.count; ++l) {
      std::size_t const line = line_of(place.leaf + l, stride, place.row);
      auto sum = sums_of_leaf<Rows, Vectors>(reinterpret_cast<Scalar const*>(&inputs(line)),
                                             &lines(static_cast<std::size_t>(l) * samples * vectors));
      int level = 0;
      for (; (l >> level & 1) != 0; ++level) sum.add(tree[level]);
      tree[level] = sum;
    }
    int const num_columns = least(Vectors * width, num_outputs - place.column);
    for (int level = 0; level < group_levels; ++level) {
      if ((place.count >> level & 1) == 0) continue;
      VARVE_UNROLL
      for (int r = 0; r < Rows; ++r)
        levels.add_subtree(place.run, place.before, level,
                           static_cast<std::size_t>(place.row + r) * static_cast<std::size_t>(num_outputs) +
                               static_cast<std::size_t>(place.column),
                           num_columns, reinterpret_cast<Scalar*>(tree[level].of[r]));
    }
  }

  /// The sums of a leaf. x: the lines of `Rows` inputs; e: the errors in the layout of stage_errors(). Computes two
  /// chains at a time, so that only every second sum goes to the L1.
  template <int Rows, int Vectors>
  KOKKOS_FORCEINLINE_FUNCTION static Sums<Rows, Vectors> sums_of_leaf(Scalar const* x, Numbers const* e) {
    Sums<Rows, Vectors> tree[chain_levels];
    Sums<Rows, Vectors> sum;
    for (int turn = 0; turn < chains; turn += 2) {
      auto const first = sums_of_chain<Rows, Vectors>(x + reversed(turn), e);
      sum = sums_of_chain<Rows, Vectors>(x + reversed(turn + 1), e + Links * vectors);
      sum.add(first);
      e += 2 * Links * vectors;
      int level = 1;
      for (; (turn >> level & 1) != 0; ++level) sum.add(tree[level]);
      if (level < chain_levels) tree[level] = sum;
    }
    return sum;
  }

  /// The sums of a chain. x: its first sample in the line of the first input; e: its errors.
  template <int Rows, int Vectors>
  KOKKOS_FORCEINLINE_FUNCTION static Sums<Rows, Vectors> sums_of_chain(Scalar const* x, Numbers const* e) {
    Sums<Rows, Vectors> sum;
    VARVE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      VARVE_UNROLL
      for (int v = 0; v < Vectors; ++v) clear(sum.of[r][v]);
    }
    VARVE_UNROLL
    for (int k = 0; k < Links; ++k, e += vectors) {
      Numbers error[Vectors];
      VARVE_UNROLL
      for (int v = 0; v < Vectors; ++v) copy(error[v], e[v]);
      VARVE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        VARVE_UNROLL
        for (int v = 0; v < Vectors; ++v) add_product(sum.of[r][v], x[r * samples + k * chains], error[v]);
      }
    }
    return sum;
  }

  /// The chain that the depth-first tree over chains adds in step `turn`: the reversed bits of `turn`.
  KOKKOS_FORCEINLINE_FUNCTION static int reversed(int turn) {
    int chain = 0;
    VARVE_UNROLL
    for (int bit = 1; bit < chains; bit *= 2) chain = 2 * chain + ((turn & bit) != 0 ? 1 : 0);
    return chain;
  }
  static constexpr int chain_levels = chains == 16 ? 4 : 3;
  static_assert(1 << chain_levels == chains);
};

/// Launches LeafGradientOnHost. Does not fence.
template <class ExecutionSpace, class Scalar, int Links>
void leaf_gradient_on_host(ExecutionSpace const& space, LeafGradientOnHost<ExecutionSpace, Scalar, Links> kernel) {
  using Kernel = LeafGradientOnHost<ExecutionSpace, Scalar, Links>;
  constexpr int tasks_per_processor = 4;
  if (kernel.levels.num_leaves == 0 || kernel.num_inputs == 0 || kernel.num_outputs == 0) return;
  int const tasks = kernel.num_blocks() * kernel.levels.num_runs();
  int const wanted = tasks_per_processor * num_processors(space);
  kernel.num_parts = std::clamp((wanted + tasks - 1) / tasks, 1, (kernel.num_inputs + Kernel::rows - 1) / Kernel::rows);
  launch_teams("varve::leaf_gradient", typename Kernel::Policy(space, tasks * kernel.num_parts, 1), kernel, 1,
               Kernel::scratch_bytes + 64);
}

/// GPUs: the gradients of a layer at all places (i, j), and the gradients of its biases,
///
///   gradient(i, j) = sum over s of inputs(i, s) * errors(j, s),    bias(j) = sum over s of errors(j, s),
///
/// in the order of network/leaf.hpp, into `levels` and `bias_levels`, which have the same runs. league: runs of leaves
/// x parts of 64 inputs and 16 * thread_columns outputs; team: 256 threads with 4 x thread_columns sums each. A team
/// copies the lines of its neurons in a leaf to scratch, padded by one pack, so that neighbouring lines begin in
/// different banks. A thread alone adds up a leaf: all chains, and their tree in registers, without shuffles. Per chain
/// it loads its lines' numbers from scratch for 64 fma (double: 32) and 16 (8) additions. Bound by the fma units.
template <class ExecutionSpace, class Scalar>
struct LeafGradientOnGpu {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  static constexpr int team_size = 256;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, 2>>;
  using Member = typename Policy::member_type;
  using Numbers = typename Tile::PackType;
  static constexpr int threads_across = 16; ///< threads of a team in each direction
  static constexpr int thread_rows = 4;
  static constexpr int thread_columns = sizeof(Scalar) == 4 ? 4 : 2;
  static constexpr int rows = threads_across * thread_rows;
  static constexpr int columns = threads_across * thread_columns;
  static constexpr int packs = Tile::packs_per_lane * Tile::num_lanes; ///< packs of a line
  static constexpr int spacing = packs + 1;                            ///< distance of lines in scratch, in packs
  static constexpr std::size_t scratch_bytes = sizeof(Numbers) * spacing * (rows + columns);
  static_assert(rows * packs % team_size == 0 && columns * packs % team_size == 0);

  ConstTrainingPanel<ExecutionSpace, Scalar> inputs; ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar> errors; ///< errors of this layer's outputs
  TreeLevels<ExecutionSpace, Scalar> levels;         ///< result: [input][output]
  TreeLevels<ExecutionSpace, Scalar> bias_levels;    ///< result: gradients of all biases; empty if not wanted
  int num_inputs;
  int num_outputs;
  int stride; ///< lines of a leaf in `inputs`: num_inputs, or more if the inputs are a part of a layer's

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
    int const first = levels.first_of(run);
    int const last = levels.end_of(run);
    for (int leaf = first; leaf < last; ++leaf) {
      if (leaf != first) team.team_barrier();
      stage<rows>(x, inputs, leaf, row, num_inputs, stride, rank);
      stage<columns>(e, errors, leaf, column, num_outputs, num_outputs, rank);
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

  /// Copies `Count` lines of a leaf to scratch, from neuron `first` on; lines past the last neuron are zero. of_leaf:
  /// lines of each leaf in the panel.
  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION static void stage(Lines const& to,
                                                ConstTrainingPanel<ExecutionSpace, Scalar> const& panel, int leaf,
                                                int first, int num_neurons, int of_leaf, int rank) {
    constexpr int loads = Count * packs / team_size;
    Numbers numbers[loads];
    VARVE_UNROLL
    for (int i = 0; i < loads; ++i) {
      int const place = i * team_size + rank;
      int const neuron = first + place / packs;
      clear(numbers[i]);
      if (neuron < num_neurons) copy(numbers[i], panel(line_of(leaf, of_leaf, neuron)).pack[place % packs]);
    }
    VARVE_UNROLL
    for (int i = 0; i < loads; ++i) {
      int const place = i * team_size + rank;
      copy(to(static_cast<std::size_t>(place / packs * spacing + place % packs)), numbers[i]);
    }
  }

  /// The packs that lane `lane` holds of a line in scratch.
  KOKKOS_FORCEINLINE_FUNCTION static LanePacks<Tile> lane_of(Lines const& lines, int line, int lane) {
    LanePacks<Tile> found;
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k)
      copy(found.pack[k], lines(static_cast<std::size_t>(line * spacing + k * Tile::num_lanes + lane)));
    return found;
  }

  /// Adds a thread's sums of a leaf, whose rows and columns are 16 apart, after `before` leaves of the run.
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

  /// A chain of a gradient, added up as by LeafSums::set_sum().
  KOKKOS_FORCEINLINE_FUNCTION static Scalar chain_of(LanePacks<Tile> const& x, LanePacks<Tile> const& e) {
    Scalar sum = 0;
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      VARVE_UNROLL
      for (int i = 0; i < Tile::pack_width; ++i) sum = Kokkos::fma(x.pack[k].lane[i], e.pack[k].lane[i], sum);
    }
    return sum;
  }

  /// Adds the sums of the errors in a leaf, one per thread.
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
  launch_teams("varve::leaf_gradient",
               typename Kernel::Policy(space, kernel.levels.num_runs() * parts, +Kernel::team_size), kernel, 0,
               Kernel::scratch_bytes + 128);
}

} // namespace varve
