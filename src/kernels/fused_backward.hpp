#pragma once

#include "core/intrinsics.hpp"
#include "kernels/derivative.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/trained_forward.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <string>
#include <vector>

namespace varve {

/// The first row of part `part` of num_parts parts with about equal numbers of edges and rows together (a binary
/// search).
template <class ExecutionSpace>
KOKKOS_FORCEINLINE_FUNCTION int row_of_share(EdgeRows<ExecutionSpace> const& edges, int part, int num_parts) {
  std::uint64_t const all = edges.row_pointers(edges.num_rows) + static_cast<std::uint64_t>(edges.num_rows);
  std::uint64_t const share = all * static_cast<std::uint64_t>(part) / static_cast<std::uint64_t>(num_parts);
  return first_not_before(0, edges.num_rows,
                          [&](int row) { return edges.row_pointers(row) + static_cast<std::uint64_t>(row) < share; });
}

/// Backward pass of one layer, by input, without atomics: errors of its inputs and gradients of its edges together.
///
///   input_errors(i, s) = act'(inputs(i, s)) * fma-chain over j, ascending, of weight(j, i) * errors(j, s)
///
///   gradient(j, i) = sum over s of inputs(i, s) * errors(j, s), in the order of network/leaf.hpp, into `levels`
///
/// Without HasInputErrors it computes the gradient alone: for the first layer, whose inputs are samples.
/// league: runs of leaves x blocks of inputs; team threads: inputs; vector lanes: packs of samples. Per edge and leaf
/// it reads one line of errors (256 bytes) for two fma per sample (one without HasInputErrors). On GPUs the lines of
/// several edges are in flight before the first is used.
template <class ExecutionSpace, class Scalar, bool HasInputErrors, int Links = kChainLength>
struct FusedBackward {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Tune = TrainingTuning<ExecutionSpace>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Static>, typename Tune::BackwardBounds>;
  using Member = typename Policy::member_type;
  static constexpr bool on_host = Tune::on_host;
  using Sums = LeafSums<Tile, Tile::num_lanes, on_host ? kLeafChains<Scalar> : Tile::num_lanes / 2>;

  EdgeRows<ExecutionSpace> edges;                            ///< the edges, by input
  ConstDeviceArray<ExecutionSpace, Scalar> weights;          ///< weights in the order of `edges`
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> inputs;  ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> errors;  ///< errors of this layer's outputs
  TrainingPanel<ExecutionSpace, Scalar, Links> input_errors; ///< result: errors of the outputs of the layer before
  Derivative<Scalar> derivative;             ///< derivative of the activation function of the layer before
  TreeLevels<ExecutionSpace, Scalar> levels; ///< result: gradients of weights
  int num_outputs;
  int stride; ///< lines of a leaf in `inputs` and `input_errors`: rows of `edges`, or more for a part of the inputs
  int num_blocks;
  TreeLevels<ExecutionSpace, Scalar> bias_levels; ///< result of NeuronSums: gradients of biases; empty if not wanted

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const run = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const first_row = first_row_of(block);
    int const last_row = first_row_of(block + 1);
    int const lines_per_row =
        last_row > first_row ? (num_outputs + last_row - first_row - 1) / (last_row - first_row) : 0;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
      for (int leaf = levels.first_of(run); leaf < levels.end_of(run); ++leaf)
        for (int row = first_row + team.team_rank(); row < last_row; row += team.team_size()) {
          if constexpr (on_host) fetch_ahead(leaf, row - first_row, row, lines_per_row);
          backward_row(run, leaf, row, lane);
        }
    });
  }

  /// The first row of a block. On CPUs blocks have about equal numbers of edges. On GPUs they have equal numbers of
  /// rows: the dependent loads of a search for equal shares would take as long as a block of rows.
  KOKKOS_FORCEINLINE_FUNCTION int first_row_of(int block) const {
    if constexpr (on_host) return row_of_share(edges, block, num_blocks);
    return static_cast<int>(static_cast<std::int64_t>(edges.num_rows) * block / num_blocks);
  }

  /// Hosts: prefetches the line of a later row and `lines_per_row` lines of errors of the next leaf.
  KOKKOS_FORCEINLINE_FUNCTION void fetch_ahead(int leaf, int row_of_block, int row, int lines_per_row) const {
    constexpr int rows_ahead = 2;
    auto const line = line_of(leaf, stride, row + rows_ahead);
    fetch(inputs.data() + line, 1);
    if constexpr (HasInputErrors) fetch<FetchTo::l1_for_stores>(input_errors.data() + line, 1);
    if (leaf + 1 == levels.num_leaves) return;
    fetch<FetchTo::l2>(errors.data() + line_of(leaf + 1, num_outputs, row_of_block * lines_per_row),
                       static_cast<std::size_t>(lines_per_row));
  }

  KOKKOS_FORCEINLINE_FUNCTION void backward_row(int run, int leaf, int row, int lane) const {
    auto const line = line_of(leaf, stride, row);
    LanePacks<Tile> x;
    x.load(inputs(line), lane);
    LanePacks<Tile> sum;
    sum.clear_all();
    std::uint32_t const end = edges.row_pointers(row + 1);
    for (std::uint32_t edge = edges.row_pointers(row); edge < end; edge += Sums::count) {
      fetch_lines<Tile>(errors.data() + line_of(leaf, num_outputs, 0), edges, edge + 2 * Sums::count, Sums::count);
      Sums sums;
      int const count = end - edge < Sums::count ? static_cast<int>(end - edge) : Sums::count;
      if (count == Sums::count) {
        add_edges<true>(leaf, edge, count, lane, x, sum, sums);
      } else {
        add_edges<false>(leaf, edge, count, lane, x, sum, sums);
      }
      levels.template add<Sums>(run, leaf - levels.first_of(run), edge, count, lane, sums.total(lane));
    }
    store_errors(sum, x, line, lane);
  }

  /// Turns a lane's sums of an input, whose activations are x, into errors and stores them.
  KOKKOS_FORCEINLINE_FUNCTION void store_errors(LanePacks<Tile>& sum, LanePacks<Tile> const& x, std::size_t line,
                                                int lane) const {
    if constexpr (HasInputErrors) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) derivative.apply(sum.pack[k], x.pack[k]);
      sum.store(input_errors(line), lane);
    }
  }

  /// Adds `count` edges from `first` on; AllOf: `count` is Sums::count.
  template <bool AllOf>
  KOKKOS_FORCEINLINE_FUNCTION void add_edges(int leaf, std::uint32_t first, int count, int lane,
                                             LanePacks<Tile> const& x, LanePacks<Tile>& sum, Sums& sums) const {
    constexpr int ahead = on_host ? 1 : Sums::count;
    LanePacks<Tile> error[ahead];
    VARVE_UNROLL
    for (int i = 0; i < Sums::count; ++i) { // a loop to `count` could not be unrolled, and the sums would spill
      if (i % ahead == 0) {
        VARVE_UNROLL
        for (int k = 0; k < ahead; ++k)
          if (AllOf || i + k < count) load_error(error[k], leaf, first + static_cast<std::uint32_t>(i + k), lane);
      }
      if (AllOf || i < count) {
        add_edge(first + static_cast<std::uint32_t>(i), i, error[i % ahead], x, sum, sums);
      } else {
        sums.clear_sum(i);
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void load_error(LanePacks<Tile>& error, int leaf, std::uint32_t edge, int lane) const {
    error.load(errors(line_of(leaf, num_outputs, 0) + edges.neurons(edge)), lane);
  }

  KOKKOS_FORCEINLINE_FUNCTION void add_edge(std::uint32_t edge, int i, LanePacks<Tile> const& error,
                                            LanePacks<Tile> const& x, LanePacks<Tile>& sum, Sums& sums) const {
    if constexpr (HasInputErrors) {
      Scalar const weight = weights(edge);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum.pack[k], weight, error.pack[k]);
    }
    sums.set_sum(i, x, error);
  }
};

/// Launches FusedBackward, and NeuronSums if gradients of biases are wanted. Does not fence. The levels must be for
/// leaves_per_run() of the tuning.
template <class ExecutionSpace, class Scalar, bool HasInputErrors, int Links>
void fused_backward(ExecutionSpace const& space, FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links> kernel) {
  using Kernel = FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links>;
  using Tune = TrainingTuning<ExecutionSpace>;
  if (kernel.bias_levels.num_sums != 0)
    neuron_sums(space,
                NeuronSums<ExecutionSpace, Scalar, Links>{kernel.errors, kernel.bias_levels, kernel.num_outputs});
  if (kernel.levels.num_leaves == 0 || kernel.edges.num_rows == 0) return;
  kernel.num_blocks = Tune::num_blocks(num_processors(space), kernel.edges.num_rows);
  typename Kernel::Policy const policy(space, kernel.levels.num_runs() * kernel.num_blocks, Tune::team_size,
                                       Kernel::Tile::num_lanes);
  launch_teams(HasInputErrors ? "varve::fused_backward" : "varve::first_gradient", policy, kernel);
}

/// Computes the same as FusedBackward and NeuronSums, on GPUs, for layers with so few outputs that half lines of all
/// their errors fit team scratch. Halves of leaves count as leaves in `levels` and `bias_levels`.
/// league: runs of halves of leaves x blocks of inputs (every num_blocks-th input); team threads: inputs; vector lanes:
/// packs of samples. Per block and half of a leaf it reads the half lines of all errors once from the L2; per edge and
/// leaf, 256 bytes from scratch.
template <class ExecutionSpace, class Scalar, bool HasInputErrors>
struct ScratchBackward {
  using Half = LineHalf<ExecutionSpace, Scalar>;
  using Tile = typename Half::Tile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<1024, 1>>;
  using Member = typename Policy::member_type;
  using Sums = LeafSums<Tile, Half::num_lanes>;
  using Lines = typename Half::Lines;

  FusedBackward<ExecutionSpace, Scalar, HasInputErrors> given;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const run = team.league_rank() / given.num_blocks;
    int const block = team.league_rank() % given.num_blocks;
    int const first = given.levels.first_of(run);
    int const last = given.levels.end_of(run);
    auto const lines = Half::in_scratch(team, given.num_outputs);
    int const rank = team.team_rank();
    for (int unit = first; unit < last; ++unit) {
      int const leaf = unit / Half::halves;
      int const half = unit % Half::halves;
      if (unit != first) team.team_barrier();
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Half::num_lanes), [&](int lane) {
        Half::stage(lines, given.errors, line_of(leaf, given.num_outputs, 0), given.num_outputs, half, rank, lane);
      });
      team.team_barrier();
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Half::num_lanes),
                           [&](int lane) { backward_block(lines, run, unit - first, leaf, half, block, rank, lane); });
    }
  }

private:
  /// Computes the rows and the sums of errors of a block in half of a leaf, after `before` halves of the run.
  KOKKOS_FORCEINLINE_FUNCTION void backward_block(Lines const& lines, int run, int before, int leaf, int half,
                                                  int block, int rank, int lane) const {
    for (int row = block + rank * given.num_blocks; row < given.edges.num_rows;
         row += given.num_blocks * Half::team_size)
      backward_row(lines, run, before, leaf, half, row, lane);
    int const groups = given.bias_levels.num_sums == 0 ? 0 : (given.num_outputs + Sums::count - 1) / Sums::count;
    for (int group = block + rank * given.num_blocks; group < groups; group += given.num_blocks * Half::team_size)
      add_errors(lines, run, before, group * Sums::count, lane);
  }

  KOKKOS_FORCEINLINE_FUNCTION void backward_row(Lines const& lines, int run, int before, int leaf, int half, int row,
                                                int lane) const {
    auto const line = line_of(leaf, given.stride, row);
    LanePacks<Tile> x;
    x.load(given.inputs(line), half * Half::num_lanes + lane);
    LanePacks<Tile> sum;
    sum.clear_all();
    std::uint32_t const end = given.edges.row_pointers(row + 1);
    std::uint32_t edge = given.edges.row_pointers(row);
    EdgesAhead<ExecutionSpace, Scalar, Half::num_lanes> next;
    next.load(given.edges, given.weights, edge, end, lane);
    for (; edge < end; edge += Sums::count) {
      auto const now = next;
      next.load(given.edges, given.weights, edge + Sums::count, end, lane);
      Sums sums;
      int const count = end - edge < Sums::count ? static_cast<int>(end - edge) : Sums::count;
      if (count == Sums::count) {
        VARVE_UNROLL
        for (int i = 0; i < Sums::count; ++i)
          add_edge(lines, now.neuron_of(i), now.weight_of(i), i, lane, x, sum, sums);
      } else {
        VARVE_UNROLL
        for (int i = 0; i < Sums::count; ++i) { // a loop to `count` could not be unrolled, and the sums would spill
          if (i < count) {
            add_edge(lines, now.neuron_of(i), now.weight_of(i), i, lane, x, sum, sums);
          } else {
            sums.clear_sum(i);
          }
        }
      }
      given.levels.template add<Sums>(run, before, edge, count, lane, sums.total(lane));
    }
    given.store_errors(sum, x, line, half * Half::num_lanes + lane);
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

  /// Adds the sums of the errors of neighbouring neurons.
  KOKKOS_FORCEINLINE_FUNCTION void add_errors(Lines const& lines, int run, int before, int first, int lane) const {
    int const count = given.num_outputs - first < Sums::count ? given.num_outputs - first : Sums::count;
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
    given.bias_levels.template add<Sums>(run, before, static_cast<std::size_t>(first), count, lane, sums.total(lane));
  }
};

/// Launches ScratchBackward. Does not fence. The levels must be for the runs of TrainingTuning::halves_per_run().
template <class ExecutionSpace, class Scalar, bool HasInputErrors>
void scratch_backward(ExecutionSpace const& space, FusedBackward<ExecutionSpace, Scalar, HasInputErrors> given) {
  using Kernel = ScratchBackward<ExecutionSpace, Scalar, HasInputErrors>;
  using Half = typename Kernel::Half;
  if (given.levels.num_leaves == 0 || given.num_outputs == 0) return;
  given.num_blocks =
      TrainingTuning<ExecutionSpace>::half_blocks(num_processors(space), given.edges.num_rows, given.levels.num_leaves);
  int const teams = given.levels.num_runs() * given.num_blocks;
  launch_teams(HasInputErrors ? "varve::scratch_backward" : "varve::scratch_gradient",
               typename Kernel::Policy(space, teams, +Half::team_size, +Half::num_lanes), Kernel{given}, 0,
               Half::scratch_bytes(given.num_outputs) + 128);
}

/// The kernels of a series: neighbouring layers with the same number of inputs and outputs. The vector must outlive the
/// list.
template <class Kernel>
using KernelList = Kokkos::View<Kernel const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
template <class Kernel>
KernelList<Kernel> list_of(std::vector<Kernel> const& kernels) {
  return KernelList<Kernel>(kernels.data(), kernels.size());
}

/// Launches SeriesForward or SeriesBackward for so many indices. Does not fence.
template <class ExecutionSpace, class Kernel>
void launch_series(std::string const& label, ExecutionSpace const& space, int count, Kernel const& kernel) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  Kokkos::parallel_for(label, Policy(space, 0, count).set_chunk_size(1), kernel);
}

/// The forward pass of a series in one launch on a host: a thread computes all layers for one leaf, one after the
/// other. In all panels a leaf's lines have the same indices, so threads at different layers never conflict. Index:
/// leaf. Per edge and leaf it reads one line of inputs (256 bytes) for one fma per sample, as TrainedForward does, but
/// from the L2, where a leaf's lines of two panels and the weights of the series stay.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct SeriesForward {
  using Layer = TrainedForward<ExecutionSpace, Scalar, Links>;

  KernelList<Layer> layers; ///< in the order of the network

  KOKKOS_FUNCTION void operator()(int leaf) const {
    for (std::size_t number = 0; number < layers.size(); ++number) {
      auto const& layer = layers(number);
      for (int row = 0; row < layer.edges.num_rows; ++row) layer.forward_row(leaf, row, 0);
    }
  }
};

/// The backward pass of a series in one launch on a host: a thread computes a run of leaves, each through all layers.
/// Index: run of leaves. Moves and computes per edge the same as FusedBackward.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct SeriesBackward {
  using Layer = FusedBackward<ExecutionSpace, Scalar, true, Links>;

  KernelList<Layer> layers; ///< the last one of the network first; levels and bias_levels have the same runs
  int leaves_per_run;
  int num_leaves;

  KOKKOS_FUNCTION void operator()(int run) const {
    int const first = run * leaves_per_run;
    int const last = first + leaves_per_run < num_leaves ? first + leaves_per_run : num_leaves;
    for (int leaf = first; leaf < last; ++leaf)
      for (std::size_t number = 0; number < layers.size(); ++number) backward_leaf(layers(number), run, leaf);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static void backward_leaf(Layer const& layer, int run, int leaf) {
    for (int neuron = 0; neuron < layer.num_outputs; neuron += kLeafChains<Scalar>)
      NeuronSums<ExecutionSpace, Scalar, Links>::add_group(layer.errors, layer.bias_levels, layer.num_outputs, run,
                                                           leaf, neuron, 0);
    for (int row = 0; row < layer.edges.num_rows; ++row) layer.backward_row(run, leaf, row, 0);
  }
};

} // namespace varve
