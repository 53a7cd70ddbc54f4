#pragma once

#include "core/execution.hpp"
#include "formats/device_layer.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// One layer of all live samples, for any sparsity pattern, without scratch:
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j))
/// A task is one tile and a block of outputs. league: tasks, in strides; team threads: outputs of the block; vector
/// lanes: packs of the tile's samples. Marks slots that hold a nonzero activation with `stamp`. Per edge and tile of
/// float samples it reads 128 (GPU) or 256 (CPU) bytes of activations, which a CPU finds in its L2 and a GPU in L1 or
/// L2: the bound is that cache's bandwidth, one load per fma.
template <class ExecutionSpace, class Format, class Tile>
struct DirectForward {
  using Scalar = typename Tile::Scalar;
  using PackType = typename Tile::PackType;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  using Seen = SeenBits<Scalar, Tile::pack_width>;

  Format layer;
  Scalar const* previous; ///< tiles of layer.frame.num_inputs neurons
  Scalar* next;           ///< tiles of layer.frame.num_outputs neurons
  int const* num_slots;   ///< samples held, on the device
  int* live_stamps;       ///< one per slot
  int stamp;
  int outputs_per_task;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_outputs = layer.frame.num_outputs;
    int const blocks_per_tile = (num_outputs + outputs_per_task - 1) / outputs_per_task;
    int const num_tasks = num_tiles<Tile>(*num_slots) * blocks_per_tile;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const tile = task / blocks_per_tile;
      int const first = task % blocks_per_tile * outputs_per_task;
      int const last = first + outputs_per_task < num_outputs ? first + outputs_per_task : num_outputs;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes),
                           [&](int lane) { forward_lane(team, tile, first, last, lane); });
    }
  }

  /// The outputs [first, last) that fall to this thread, for the samples of one lane.
  KOKKOS_FORCEINLINE_FUNCTION void forward_lane(Member const& team, int tile, int first, int last, int lane) const {
    Scalar const* inputs = previous + tile_begin<Tile>(tile, layer.frame.num_inputs);
    Scalar* outputs = next + tile_begin<Tile>(tile, layer.frame.num_outputs);
    Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);

    for (int output = first + team.team_rank(); output < last; output += team.team_size()) {
      PackType sum[Tile::packs_per_lane];
      for (auto& pack : sum) clear(pack);
      layer.for_each_edge(output, [&](int input, Scalar weight) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum[k], weight, pack_at(inputs, input, lane, k));
      });
      double const bias = layer.frame.bias_of(output);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) {
        finish(sum[k], bias, layer.frame.bounds);
        see(seen[k], sum[k]);
        copy(pack_at(outputs, output, lane, k), sum[k]);
      }
    }

    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      for (int i = 0; i < Tile::pack_width; ++i) {
        int const slot = tile * Tile::num_samples + Tile::sample_of(lane, k) + i;
        if (seen[k].lane[i] != 0) Kokkos::atomic_store(live_stamps + slot, stamp);
      }
    }
  }

  template <class Value>
  KOKKOS_FORCEINLINE_FUNCTION static auto& pack_at(Value* tile, int neuron, int lane, int pack) {
    using Target = std::conditional_t<std::is_const_v<Value>, PackType const, PackType>;
    return *reinterpret_cast<Target*>(tile + static_cast<std::size_t>(neuron) * Tile::num_samples +
                                      Tile::sample_of(lane, pack));
  }
};

/// Launches DirectForward for at most `max_slots` samples. Does not fence.
template <class ExecutionSpace, class Tile, class Format>
void direct_forward(ExecutionSpace const& space, Format const& layer, typename Tile::Scalar const* previous,
                    typename Tile::Scalar* next, int const* num_slots, int max_slots, int* live_stamps, int stamp) {
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  using Kernel = DirectForward<ExecutionSpace, Format, Tile>;
  int const tiles = num_tiles<Tile>(max_slots);
  if (tiles == 0 || layer.frame.num_outputs == 0) return;
  int const outputs_per_task = Tune::outputs_per_task(space, tiles, layer.frame.num_outputs);
  int const blocks_per_tile = (layer.frame.num_outputs + outputs_per_task - 1) / outputs_per_task;
  typename Kernel::Policy const policy(space, Tune::league_size(space, tiles * blocks_per_tile), Tune::team_size,
                                       Tile::num_lanes);
  Kokkos::parallel_for("varve::direct_forward", policy,
                       Kernel{layer, previous, next, num_slots, live_stamps, stamp, outputs_per_task});
}

} // namespace varve
