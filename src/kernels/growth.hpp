#pragma once

#include "core/execution.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Lists the free places (those without an edge) of a block of outputs whose absolute gradients exceed a limit, in
/// ascending order. A NaN gradient counts as 0. The body of a parallel_scan over the places of the block, numbered
/// (output - first_output) * num_inputs + input. Reads each gradient twice.
template <class ExecutionSpace, class Scalar>
struct ListFreePlaces {
  EdgeRows<ExecutionSpace> edges;                     ///< the layer's edges, by output
  ConstDeviceArray<ExecutionSpace, Scalar> gradients; ///< [place of the block]
  DeviceArray<ExecutionSpace, std::uint32_t> places;  ///< result: places of the block
  DeviceArray<ExecutionSpace, Scalar> magnitudes;     ///< result: their absolute gradients
  Scalar limit;                                       ///< below 0: all free places are listed
  int num_inputs;
  int first_output;

  KOKKOS_FUNCTION void operator()(std::size_t place, std::size_t& num_listed, bool is_final) const {
    Scalar const size = Kokkos::abs(gradients(place));
    Scalar const magnitude = size > Scalar(0) ? size : Scalar(0);
    if (!(magnitude > limit) || has_edge(place)) return;
    if (is_final) {
      places(num_listed) = static_cast<std::uint32_t>(place);
      magnitudes(num_listed) = magnitude;
    }
    ++num_listed;
  }

private:
  /// Binary search among the edges of the output, whose inputs ascend.
  KOKKOS_FORCEINLINE_FUNCTION bool has_edge(std::size_t place) const {
    auto const inputs = static_cast<std::size_t>(num_inputs);
    auto const output = static_cast<std::size_t>(first_output) + place / inputs;
    auto const input = static_cast<NeuronIndex>(place % inputs);
    std::uint32_t const end = edges.row_pointers(output + 1);
    std::uint32_t const edge = first_not_before(std::uint32_t{edges.row_pointers(output)}, end,
                                                [&](std::uint32_t one) { return edges.neurons(one) < input; });
    return edge < end && edges.neurons(edge) == input;
  }
};

/// Launches ListFreePlaces for a block of num_places places, waits for it, and returns the number of listed places.
template <class ExecutionSpace, class Scalar>
std::size_t list_free_places(ExecutionSpace const& space, ListFreePlaces<ExecutionSpace, Scalar> const& kernel,
                             std::size_t num_places) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  std::size_t num_listed = 0;
  if (num_places == 0) return num_listed;
  Kokkos::parallel_scan("varve::list_free_places", Policy(space, 0, num_places), kernel, num_listed);
  space.fence("varve: free places are listed");
  return num_listed;
}

/// Gradients of all places of a block of outputs, whether they have an edge or not:
///   gradient(j, i) = sum over s of inputs(i, s) * errors(j, s), in the order of network/leaf.hpp, into `levels`
/// Sum (j - first_output) * num_inputs + i belongs to place (j, i). At a place with an edge it is bitwise equal to the
/// gradient of FusedBackward.
///
/// A unit is one output and kLeafChains neighbouring inputs. league: runs of leaves x blocks of units; team threads:
/// units; vector lanes: packs of samples. Neighbouring units share their inputs, so per unit and leaf one line of
/// errors comes from the outer caches, for kLeafChains fma per sample.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct PlaceGradients {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Static>>;
  using Member = typename Policy::member_type;
  using Sums = LeafSums<Tile>;

  ConstTrainingPanel<ExecutionSpace, Scalar, Links> inputs; ///< activations of the layer before
  ConstTrainingPanel<ExecutionSpace, Scalar, Links> errors; ///< errors of the layer's outputs
  TreeLevels<ExecutionSpace, Scalar> levels;                ///< for block_outputs * num_inputs sums
  int num_inputs;
  int num_outputs;
  int first_output;
  int block_outputs; ///< outputs of the block
  int num_blocks;    ///< blocks of units

  KOKKOS_FORCEINLINE_FUNCTION std::int64_t num_units() const {
    return static_cast<std::int64_t>((num_inputs + Sums::count - 1) / Sums::count) * block_outputs;
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const run = team.league_rank() / num_blocks;
    std::int64_t const block = team.league_rank() % num_blocks;
    std::int64_t const first_unit = num_units() * block / num_blocks;
    std::int64_t const last_unit = num_units() * (block + 1) / num_blocks;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
      for (int leaf = levels.first_of(run); leaf < levels.end_of(run); ++leaf)
        for (std::int64_t unit = first_unit + team.team_rank(); unit < last_unit; unit += team.team_size())
          add_unit(run, leaf, static_cast<int>(unit % block_outputs),
                   static_cast<int>(unit / block_outputs) * Sums::count, lane);
    });
  }

  /// Adds one output of the block with the inputs from first_input on.
  KOKKOS_FORCEINLINE_FUNCTION void add_unit(int run, int leaf, int output, int first_input, int lane) const {
    LanePacks<Tile> error;
    error.load(errors(line_of(leaf, num_outputs, first_output + output)), lane);
    Sums sums;
    int const count = num_inputs - first_input < Sums::count ? num_inputs - first_input : Sums::count;
    VARVE_UNROLL
    for (int i = 0; i < Sums::count; ++i) { // a loop to `count` could not be unrolled, and the sums would spill
      if (i < count) {
        LanePacks<Tile> x;
        x.load(inputs(line_of(leaf, num_inputs, first_input + i)), lane);
        sums.set_sum(i, x, error);
      } else {
        sums.clear_sum(i);
      }
    }
    auto const first_sum =
        static_cast<std::size_t>(output) * static_cast<std::size_t>(num_inputs) + static_cast<std::size_t>(first_input);
    levels.template add<Sums>(run, leaf - levels.first_of(run), first_sum, count, lane, sums.total(lane));
  }
};

/// The number of blocks of units in a launch for block_outputs * num_inputs places.
template <class ExecutionSpace, class Scalar>
int place_gradient_blocks(int processors, int num_inputs, int block_outputs) {
  constexpr int count = kLeafChains<Scalar>;
  auto const units = static_cast<std::int64_t>((num_inputs + count - 1) / count) * block_outputs;
  return TrainingTuning<ExecutionSpace>::num_blocks(processors,
                                                    static_cast<int>(units < 0x7fffffff ? units : 0x7fffffff));
}

/// Launches PlaceGradients. Does not fence. `kernel.levels` must be for leaves_per_run() of place_gradient_blocks().
template <class ExecutionSpace, class Scalar, int Links>
void place_gradients(ExecutionSpace const& space, PlaceGradients<ExecutionSpace, Scalar, Links> kernel) {
  using Kernel = PlaceGradients<ExecutionSpace, Scalar, Links>;
  if (kernel.levels.num_leaves == 0 || kernel.num_units() == 0) return;
  kernel.num_blocks =
      place_gradient_blocks<ExecutionSpace, Scalar>(num_processors(space), kernel.num_inputs, kernel.block_outputs);
  typename Kernel::Policy const policy(space, kernel.levels.num_runs() * kernel.num_blocks,
                                       TrainingTuning<ExecutionSpace>::team_size, Kernel::Tile::num_lanes);
  launch_teams("varve::place_gradients", policy, kernel);
}

} // namespace varve
