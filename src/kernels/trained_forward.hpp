#pragma once

#include "core/views.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

namespace varve {

/// One layer of a mini-batch, whose weights change from step to step:
///   outputs(j, s) = finish(fma-chain over the edges (j, i), ascending, of weight(j, i) * inputs(i, s), bias(j))
/// Bitwise equal to inference. league: leaves x blocks of outputs; team threads: outputs; vector lanes: packs of
/// samples. Per edge and leaf it reads one line of inputs (256 bytes) for one fma per sample.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct TrainedForward {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int edges_ahead = TrainingTuning<ExecutionSpace>::edges_ahead;

  EdgeRows<ExecutionSpace> edges;                   ///< the edges, by output
  ConstDeviceArray<ExecutionSpace, Scalar> weights; ///< weights in the order of `edges`
  ConstDeviceArray<ExecutionSpace, double> bias;    ///< [output]
  Bounds<Scalar> bounds;
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> inputs;
  TrainingPanel<ExecutionSpace, Scalar, Links> outputs;
  int num_inputs;
  int stride; ///< lines of a leaf in `outputs`: rows of `edges`, or more if the rows are a part of the outputs
  int num_blocks;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const leaf = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const first = static_cast<int>(static_cast<std::int64_t>(edges.num_rows) * block / num_blocks);
    int const last = static_cast<int>(static_cast<std::int64_t>(edges.num_rows) * (block + 1) / num_blocks);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
      for (int row = first + team.team_rank(); row < last; row += team.team_size()) forward_row(leaf, row, lane);
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION void forward_row(int leaf, int row, int lane) const {
    auto const first_line = line_of(leaf, num_inputs, 0);
    LanePacks<Tile> sum;
    sum.clear_all();
    std::uint32_t const end = edges.row_pointers(row + 1);
    std::uint32_t edge = edges.row_pointers(row);
    for (; edge + edges_ahead <= end; edge += edges_ahead) add_edges<edges_ahead>(edge, first_line, lane, sum);
    if constexpr (edges_ahead > 1) {
      for (; edge < end; ++edge) add_edges<1>(edge, first_line, lane, sum);
    }
    finish_row(sum, leaf, row, lane);
  }

  /// Turns a lane's sums of an output into activations and stores them.
  KOKKOS_FORCEINLINE_FUNCTION void finish_row(LanePacks<Tile>& sum, int leaf, int row, int lane) const {
    double const own_bias = bias(row);
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) finish_with_curve(sum.pack[k], own_bias, bounds);
    sum.store(outputs(line_of(leaf, stride, row)), lane);
  }

  /// Adds Count edges; all their loads are in flight before the first is used.
  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION void add_edges(std::uint32_t first, std::size_t first_line, int lane,
                                             LanePacks<Tile>& sum) const {
    Scalar weight[Count];
    LanePacks<Tile> value[Count];
    VARVE_UNROLL
    for (int i = 0; i < Count; ++i) {
      std::uint32_t const edge = first + static_cast<std::uint32_t>(i);
      weight[i] = weights(edge);
      fetch_lines<Tile>(inputs.data() + first_line, edges, edge + 32, 1);
      value[i].load(inputs(first_line + edges.neurons(edge)), lane);
    }
    VARVE_UNROLL
    for (int i = 0; i < Count; ++i) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum.pack[k], weight[i], value[i].pack[k]);
    }
  }
};

/// Launches TrainedForward for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar, int Links>
void trained_forward(ExecutionSpace const& space, TrainedForward<ExecutionSpace, Scalar, Links> kernel,
                     int num_leaves) {
  using Kernel = TrainedForward<ExecutionSpace, Scalar, Links>;
  using Tune = TrainingTuning<ExecutionSpace>;
  if (num_leaves == 0 || kernel.edges.num_rows == 0) return;
  kernel.num_blocks = Tune::forward_blocks(num_processors(space), kernel.edges.num_rows, num_leaves);
  typename Kernel::Policy const policy(space, num_leaves * kernel.num_blocks, Tune::team_size, Kernel::Tile::num_lanes);
  launch_teams("varve::trained_forward", policy, kernel);
}

/// GPUs: half of the lanes of a training tile, and so half of the chains of a leaf: a subtree of the tree over chains.
/// Kernels copy this half of the lines of all neurons that they gather to team scratch (128 bytes per neuron). So they
/// read each line once from the L2 instead of once per edge, and threads of eight (double: four) lanes load a neuron's
/// half line from all banks at once.
template <class ExecutionSpace, class Scalar>
struct LineHalf {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  using Lines = ArrayView<typename Tile::PackType>;
  static constexpr int halves = 2; ///< halves of a leaf
  static constexpr int num_lanes = Tile::num_lanes / halves;
  static constexpr int packs = num_lanes * Tile::packs_per_lane; ///< packs of a neuron's half line
  static constexpr int team_size = 1024 / num_lanes;

  /// Bytes of team scratch for the half lines of num_neurons neurons.
  static std::size_t scratch_bytes(int num_neurons) {
    return static_cast<std::size_t>(num_neurons) * packs * sizeof(typename Tile::PackType);
  }
  /// True if team scratch has room for the half lines of num_neurons neurons.
  static bool fits(int num_neurons) {
    constexpr std::size_t reserve = 8192; // for Kokkos itself
    return scratch_bytes(num_neurons) + reserve <= max_team_scratch<ExecutionSpace>();
  }

  /// Allocates the half lines in the team's scratch.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION static Lines in_scratch(Member const& team, int num_neurons) {
    auto const count = static_cast<std::size_t>(num_neurons) * packs;
    std::size_t const bytes = count * sizeof(typename Tile::PackType);
    return ScratchArrays(team, 0, bytes, 128).template take<typename Tile::PackType>(count);
  }

  /// Copies one half of the lines from first_line on to scratch; rank: rank of the calling team thread. Several loads
  /// of a thread are in flight at once.
  template <class Panel>
  KOKKOS_FORCEINLINE_FUNCTION static void stage(Lines const& lines, Panel const& panel, std::size_t first_line,
                                                int num_neurons, int half, int rank, int lane) {
    constexpr int ahead = 8 / Tile::packs_per_lane;
    for (int first = rank; first < num_neurons; first += ahead * team_size) {
      LanePacks<Tile> line[ahead];
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) {
        int const neuron = first + i * team_size;
        if (neuron < num_neurons)
          line[i].load(panel(first_line + static_cast<std::size_t>(neuron)), half * num_lanes + lane);
      }
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) {
        int const neuron = first + i * team_size;
        if (neuron >= num_neurons) continue;
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) copy(lines(place(neuron, k, lane)), line[i].pack[k]);
      }
    }
  }

  /// Loads the packs of a neuron's half line that a lane holds.
  KOKKOS_FORCEINLINE_FUNCTION static void load(LanePacks<Tile>& line, Lines const& lines, int neuron, int lane) {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) copy(line.pack[k], lines(place(neuron, k, lane)));
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t place(int neuron, int k, int lane) {
    return static_cast<std::size_t>((neuron * Tile::packs_per_lane + k) * num_lanes + lane);
  }
};

/// Indices and weights of neighbouring edges, one for each lane of a thread, which passes them to the others by
/// shuffles. Each is loaded while the edges before it are in use.
template <class ExecutionSpace, class Scalar, int Lanes>
struct EdgesAhead {
  std::uint32_t neuron = 0;
  Scalar weight = 0;

  KOKKOS_FORCEINLINE_FUNCTION void load(EdgeRows<ExecutionSpace> const& edges,
                                        ConstDeviceArray<ExecutionSpace, Scalar> const& weights, std::uint32_t first,
                                        std::uint32_t end, int lane) {
    std::uint32_t const own = first + static_cast<std::uint32_t>(lane);
    if (own >= end) return;
    neuron = edges.neurons(own);
    if (weights.size() != 0) weight = weights(own);
  }
  KOKKOS_FORCEINLINE_FUNCTION int neuron_of(int i) const { return static_cast<int>(from_lane(neuron, i, Lanes)); }
  KOKKOS_FORCEINLINE_FUNCTION Scalar weight_of(int i) const { return from_lane(weight, i, Lanes); }
};

/// Computes the same as TrainedForward, on GPUs, for layers with so few inputs that half lines of all of them fit team
/// scratch. league: halves of leaves x blocks of outputs; team threads: outputs; vector lanes: packs of samples. Per
/// block and half of a leaf it reads the half lines of all inputs once from the L2; per edge and leaf, 256 bytes from
/// scratch.
template <class ExecutionSpace, class Scalar>
struct ScratchForward {
  using Half = LineHalf<ExecutionSpace, Scalar>;
  using Tile = typename Half::Tile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<1024, 1>>;
  using Member = typename Policy::member_type;

  TrainedForward<ExecutionSpace, Scalar> given;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const unit = team.league_rank() / given.num_blocks;
    int const block = team.league_rank() % given.num_blocks;
    int const leaf = unit / Half::halves;
    int const half = unit % Half::halves;
    int const first = static_cast<int>(static_cast<std::int64_t>(given.edges.num_rows) * block / given.num_blocks);
    int const last = static_cast<int>(static_cast<std::int64_t>(given.edges.num_rows) * (block + 1) / given.num_blocks);
    auto const lines = Half::in_scratch(team, given.num_inputs);
    int const rank = team.team_rank();
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Half::num_lanes), [&](int lane) {
      Half::stage(lines, given.inputs, line_of(leaf, given.num_inputs, 0), given.num_inputs, half, rank, lane);
    });
    team.team_barrier();
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Half::num_lanes), [&](int lane) {
      for (int row = first + rank; row < last; row += Half::team_size) forward_row(lines, leaf, half, row, lane);
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION void forward_row(typename Half::Lines const& lines, int leaf, int half, int row,
                                               int lane) const {
    LanePacks<Tile> sum;
    sum.clear_all();
    std::uint32_t const end = given.edges.row_pointers(row + 1);
    std::uint32_t edge = given.edges.row_pointers(row);
    EdgesAhead<ExecutionSpace, Scalar, Half::num_lanes> next;
    next.load(given.edges, given.weights, edge, end, lane);
    for (; edge < end; edge += Half::num_lanes) {
      auto const now = next;
      next.load(given.edges, given.weights, edge + Half::num_lanes, end, lane);
      if (edge + Half::num_lanes <= end) {
        VARVE_UNROLL
        for (int i = 0; i < Half::num_lanes; ++i) add_edge(lines, now.neuron_of(i), now.weight_of(i), lane, sum);
      } else {
        int const count = static_cast<int>(end - edge);
        for (int i = 0; i < count; ++i) add_edge(lines, now.neuron_of(i), now.weight_of(i), lane, sum);
      }
    }
    given.finish_row(sum, leaf, row, half * Half::num_lanes + lane);
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_edge(typename Half::Lines const& lines, int neuron, Scalar weight,
                                                   int lane, LanePacks<Tile>& sum) {
    LanePacks<Tile> value;
    Half::load(value, lines, neuron, lane);
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum.pack[k], weight, value.pack[k]);
  }
};

/// Launches ScratchForward for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar>
void scratch_forward(ExecutionSpace const& space, TrainedForward<ExecutionSpace, Scalar> given, int num_leaves) {
  using Kernel = ScratchForward<ExecutionSpace, Scalar>;
  using Half = typename Kernel::Half;
  if (num_leaves == 0 || given.edges.num_rows == 0) return;
  int const units = num_leaves * Half::halves;
  given.num_blocks = TrainingTuning<ExecutionSpace>::half_blocks(num_processors(space), given.edges.num_rows, units);
  launch_teams("varve::scratch_forward",
               typename Kernel::Policy(space, units * given.num_blocks, +Half::team_size, +Half::num_lanes),
               Kernel{given}, 0, Half::scratch_bytes(given.num_inputs) + 128);
}

} // namespace varve
