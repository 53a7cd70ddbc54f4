#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// A panel that holds samples 0 ... num_samples - 1 in order, nobody marked live, no counts but the first, and no
/// sample represented by another.
struct StartPanel {
  int* ids;
  int* live_stamps;
  int* open_stamps;
  int* counts;
  int num_samples;
  int num_counts;
  int* represented_by; ///< null: equal samples are not looked for; so
  int* is_worth_it;

  KOKKOS_FUNCTION void operator()(int i) const {
    if (represented_by != nullptr && i < num_samples) represented_by[i] = i;
    if (represented_by != nullptr && i == 0) *is_worth_it = 1;
    if (i < num_samples) ids[i] = i;
    if (i < num_samples) live_stamps[i] = open_stamps[i] = 0;
    if (i < num_counts) counts[i] = i == 0 ? num_samples : 0;
  }
};

/// The samples whose result is known before the last layer, because they are saturated and all layers to come keep them
/// so.
struct DoneSamples {
  int* ids = nullptr;
  int* count = nullptr;

  KOKKOS_FORCEINLINE_FUNCTION void append(int id) const { ids[Kokkos::atomic_fetch_add(count, 1)] = id; }
};

/// Lists the slots that hold live samples, in order: a scan over the slots of the panel.
///   position p of slot s = number of live slots before s; from_slot(p) = s; next_ids(p) = ids(s); *num_live = their
///   number
/// A slot is live if it is below *num_slots and carries `stamp`, or any if `stamp` is negative. Where `open_stamps` is
/// given, slots that are live but do not carry the stamp there go to the list of the done instead, in any order. Reads
/// 8 to 12 bytes and writes 8 per slot.
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
  int const* open_stamps = nullptr;
  DoneSamples done = {};

  KOKKOS_FUNCTION void operator()(int slot, int& position, bool is_final) const {
    bool is_live = slot < *num_slots && (stamp < 0 || live_stamps[slot] == stamp);
    if (is_live && open_stamps != nullptr && open_stamps[slot] != stamp) {
      is_live = false;
      if (is_final) done.append(ids[slot]);
    }
    if (is_final && is_live) {
      from_slot[position] = slot;
      next_ids[position] = ids[slot];
    }
    position += is_live ? 1 : 0;
    if (is_final && slot == max_slots - 1) *num_live = position;
  }
};

/// Moves the live samples of a panel together: target(p) = source(from_slot(p)), all neurons; the tiles of source and
/// target may differ in their number of samples. A task is 32 target slots and a block of neurons.
/// Reads and writes each live activation once; bound by memory bandwidth (one value per line at worst).
template <class ExecutionSpace, class Scalar>
struct MoveLiveSamples {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int slots_per_task = 32;
  static constexpr int in_flight = 8;

  Scalar const* source;
  Scalar* target;
  int source_tile_samples;
  int target_tile_samples;
  int const* num_live;
  int const* from_slot; ///< null: slot p
  int num_neurons;
  int neurons_per_task;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const live = *num_live;
    int const parts = (num_neurons + neurons_per_task - 1) / neurons_per_task;
    int const num_tasks = (live + slots_per_task - 1) / slots_per_task * parts;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const first_slot = task / parts * slots_per_task;
      int const count = live - first_slot < slots_per_task ? live - first_slot : slots_per_task;
      int const first = task % parts * neurons_per_task;
      int const last = first + neurons_per_task < num_neurons ? first + neurons_per_task : num_neurons;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, count), [&](int i) {
        int const slot = first_slot + i;
        Scalar const* const from =
            source + place_of_slot(from_slot == nullptr ? slot : from_slot[slot], num_neurons, source_tile_samples);
        Scalar* const to = target + place_of_slot(slot, num_neurons, target_tile_samples);
        int const step = team.team_size();
        for (int neuron = first + team.team_rank(); neuron < last; neuron += in_flight * step) {
          Scalar value[in_flight]; // all loads before the first store, which the compiler must assume to change them
          VARVE_UNROLL
          for (int k = 0; k < in_flight; ++k) {
            if (neuron + k * step < last)
              value[k] =
                  from[static_cast<std::size_t>(neuron + k * step) * static_cast<std::size_t>(source_tile_samples)];
          }
          VARVE_UNROLL
          for (int k = 0; k < in_flight; ++k) {
            if (neuron + k * step < last)
              to[static_cast<std::size_t>(neuron + k * step) * static_cast<std::size_t>(target_tile_samples)] =
                  value[k];
          }
        }
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
template <class ExecutionSpace, class Scalar>
void move_live_samples(ExecutionSpace const& space, MoveLiveSamples<ExecutionSpace, Scalar> kernel, int max_live) {
  using Kernel = MoveLiveSamples<ExecutionSpace, Scalar>;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  int const groups = (max_live + Kernel::slots_per_task - 1) / Kernel::slots_per_task;
  if (groups == 0 || kernel.num_neurons == 0) return;
  kernel.neurons_per_task = Tune::blocks_per_task(space, groups, kernel.num_neurons, 4 * Tune::move_team_size);
  int const num_tasks = groups * ((kernel.num_neurons + kernel.neurons_per_task - 1) / kernel.neurons_per_task);
  typename Kernel::Policy const policy(space, Tune::league_size(space, num_tasks), Tune::move_team_size,
                                       Tune::move_lanes);
  Kokkos::parallel_for("varve::move_live_samples", policy, kernel);
}

} // namespace varve
