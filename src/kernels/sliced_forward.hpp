#pragma once

#include "formats/trained_edges.hpp"
#include "kernels/line_slice.hpp"
#include "kernels/tuning/training.hpp"

namespace varve {

/// What TrainedForward computes, on GPUs, for layers with so few inputs that a slice of their lines fits team scratch.
/// league: slices of leaves x blocks of outputs; team threads: outputs; vector lanes: packs of samples. Per block and
/// slice it reads the lines of all inputs once from the L2; per edge and leaf, 256 bytes from scratch.
template <class ExecutionSpace, class Scalar>
struct SlicedForward {
  using Slice = LineSlice<ExecutionSpace, Scalar>;
  using Tile = typename Slice::Tile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<1024, 1>>;
  using Member = typename Policy::member_type;
  using Weights = ConstDeviceArray<ExecutionSpace, Scalar>;

  EdgeRows<ExecutionSpace> edges;                ///< the edges, by output
  Weights weights;                               ///< weights in the order of `edges`
  ConstDeviceArray<ExecutionSpace, double> bias; ///< by output
  Bounds<Scalar> bounds;
  ConstTrainingPanel<ExecutionSpace, Scalar> inputs;
  TrainingPanel<ExecutionSpace, Scalar> outputs;
  int num_inputs;
  int num_blocks;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const unit = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const leaf = unit / Slice::slices;
    int const slice = unit % Slice::slices;
    int const first = static_cast<int>(static_cast<std::int64_t>(edges.num_rows) * block / num_blocks);
    int const last = static_cast<int>(static_cast<std::int64_t>(edges.num_rows) * (block + 1) / num_blocks);
    auto const lines = Slice::in_scratch(team, num_inputs);
    int const rank = team.team_rank();
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Slice::num_lanes), [&](int lane) {
      Slice::bring(lines, inputs, static_cast<std::size_t>(leaf) * static_cast<std::size_t>(num_inputs), num_inputs,
                   slice, rank, lane);
    });
    team.team_barrier();
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Slice::num_lanes), [&](int lane) {
      for (int row = first + rank; row < last; row += Slice::team_size) forward_row(lines, leaf, slice, row, lane);
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION void forward_row(typename Slice::Lines const& lines, int leaf, int slice, int row,
                                               int lane) const {
    LanePacks<Tile> sum;
    sum.clear_all();
    std::uint32_t const end = edges.row_pointers(row + 1);
    std::uint32_t edge = edges.row_pointers(row);
    EdgesAhead<EdgeRows<ExecutionSpace>, Weights, Slice::num_lanes> next;
    next.load(edges, weights, edge, end, lane);
    for (; edge < end; edge += Slice::num_lanes) {
      auto const now = next;
      next.load(edges, weights, edge + Slice::num_lanes, end, lane);
      if (edge + Slice::num_lanes <= end) {
        VARVE_UNROLL
        for (int i = 0; i < Slice::num_lanes; ++i) add_edge(lines, now.neuron_of(i), now.weight_of(i), lane, sum);
      } else {
        int const count = static_cast<int>(end - edge);
        for (int i = 0; i < count; ++i) add_edge(lines, now.neuron_of(i), now.weight_of(i), lane, sum);
      }
    }
    double const own_bias = bias(row);
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) finish_with_curve(sum.pack[k], own_bias, bounds);
    sum.store(outputs(static_cast<std::size_t>(leaf) * static_cast<std::size_t>(edges.num_rows) +
                      static_cast<std::size_t>(row)),
              slice * Slice::num_lanes + lane);
  }

  KOKKOS_FORCEINLINE_FUNCTION static void add_edge(typename Slice::Lines const& lines, int neuron, Scalar weight,
                                                   int lane, LanePacks<Tile>& sum) {
    LanePacks<Tile> value;
    Slice::load(value, lines, neuron, lane);
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum.pack[k], weight, value.pack[k]);
  }
};

/// Launches SlicedForward for num_leaves leaves. Does not fence.
template <class ExecutionSpace, class Scalar>
void sliced_forward(ExecutionSpace const& space, SlicedForward<ExecutionSpace, Scalar> kernel, int num_leaves) {
  using Kernel = SlicedForward<ExecutionSpace, Scalar>;
  using Slice = typename Kernel::Slice;
  if (num_leaves == 0 || kernel.edges.num_rows == 0) return;
  int const units = num_leaves * Slice::slices;
  kernel.num_blocks = TrainingTuning<ExecutionSpace>::slice_blocks(num_processors(space), kernel.edges.num_rows, units);
  typename Kernel::Policy policy(space, units * kernel.num_blocks, +Slice::team_size, +Slice::num_lanes);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Slice::scratch_bytes(kernel.num_inputs)) + 128));
  launch_teams("varve::sliced_forward", policy, kernel);
}

} // namespace varve
