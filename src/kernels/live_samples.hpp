#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// Lists the slots that hold live samples, in order: a scan over the slots of the panel.
///   position p of slot s = number of live slots before s; from_slot(p) = s; next_ids(p) = ids(s); *num_live = their
///   number
/// A slot is live if it is below *num_slots and carries `stamp`. Reads 8 bytes and writes 8 per slot.
template <class ExecutionSpace>
struct ListLiveSamples {
  int const* num_slots;
  int* num_live;
  int const* live_stamps;
  int stamp;
  int const* ids;
  int* next_ids;
  int* from_slot;
  int max_slots;

  KOKKOS_FUNCTION void operator()(int slot, int& position, bool is_final) const {
    bool const is_live = slot < *num_slots && live_stamps[slot] == stamp;
    if (is_final && is_live) {
      from_slot[position] = slot;
      next_ids[position] = ids[slot];
    }
    position += is_live ? 1 : 0;
    if (is_final && slot == max_slots - 1) *num_live = position;
  }
};

/// Moves the live samples of a panel together: target(p) = source(from_slot(p)), all neurons. A task is one target tile
/// and a block of neurons. Reads and writes each live activation once; bound by memory bandwidth (scattered reads of
/// one value per line at worst).
template <class ExecutionSpace, class Tile>
struct MoveLiveSamples {
  using Scalar = typename Tile::Scalar;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;

  Scalar const* source;
  Scalar* target;
  int const* num_live;
  int const* from_slot;
  int num_neurons;
  int neurons_per_task;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const live = *num_live;
    int const blocks_per_tile = (num_neurons + neurons_per_task - 1) / neurons_per_task;
    int const num_tasks = num_tiles<Tile>(live) * blocks_per_tile;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const first_slot = task / blocks_per_tile * Tile::num_samples;
      int const count = live - first_slot < Tile::num_samples ? live - first_slot : Tile::num_samples;
      int const first = task % blocks_per_tile * neurons_per_task;
      int const last = first + neurons_per_task < num_neurons ? first + neurons_per_task : num_neurons;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, first, last), [&](int neuron) {
        Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, count), [&](int sample) {
          int const slot = first_slot + sample;
          target[place_of<Tile>(slot, neuron, num_neurons)] =
              source[place_of<Tile>(from_slot[slot], neuron, num_neurons)];
        });
      });
    }
  }
};

/// Launches the scan. Does not fence.
template <class ExecutionSpace>
void list_live_samples(ExecutionSpace const& space, ListLiveSamples<ExecutionSpace> const& scan) {
  Kokkos::parallel_scan("varve::list_live_samples", Kokkos::RangePolicy<ExecutionSpace>(space, 0, scan.max_slots),
                        scan);
}

/// Launches the move for at most `max_live` samples. Does not fence.
template <class ExecutionSpace, class Tile>
void move_live_samples(ExecutionSpace const& space, typename Tile::Scalar const* source, typename Tile::Scalar* target,
                       int const* num_live, int const* from_slot, int max_live, int num_neurons) {
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  using Kernel = MoveLiveSamples<ExecutionSpace, Tile>;
  int const tiles = num_tiles<Tile>(max_live);
  if (tiles == 0) return;
  int const neurons_per_task = Tune::outputs_per_task(space, tiles, num_neurons);
  int const blocks_per_tile = (num_neurons + neurons_per_task - 1) / neurons_per_task;
  typename Kernel::Policy const policy(space, Tune::league_size(space, tiles * blocks_per_tile), Tune::team_size,
                                       Tile::num_lanes);
  Kokkos::parallel_for("varve::move_live_samples", policy,
                       Kernel{source, target, num_live, from_slot, num_neurons, neurons_per_task});
}

} // namespace varve
