#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// A panel that holds some of the neurons of a whole panel, for the same samples at the same positions. The tile sizes
/// of the two may differ.
template <class Scalar>
struct PanelPart {
  ArrayView<Scalar const> activations; ///< tiles [neuron][sample] of its own neurons
  ArrayView<int const> live_stamps;    ///< one per position
  int first_neuron;                    ///< within the whole panel
  int num_neurons;
  int tile_samples;
};

/// Copies a part of the neurons into the whole panel: target(first_neuron + j, s) = part(j, s), and the live stamps of
/// the part. league: tasks, in strides; a task is as many samples as the smaller of both tiles holds, and some neurons.
/// team threads: neurons; vector lanes: samples. Reads and writes each activation of the part once, in lines of 32
/// bytes or more: bound by memory bandwidth.
template <class ExecutionSpace, class Scalar>
struct JoinNeurons {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;

  PanelPart<Scalar> part;
  ArrayView<Scalar> target;
  int num_neurons; ///< neurons of the target
  int tile_samples;
  int num_slots;
  ArrayView<int> live_stamps;
  int stamp;
  int line; ///< samples of a task
  int neurons_per_task;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const tasks_per_line = (part.num_neurons + neurons_per_task - 1) / neurons_per_task;
    int const num_tasks = num_tiles(num_slots, line) * tasks_per_line;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const slot = task / tasks_per_line * line;
      int const first = task % tasks_per_line * neurons_per_task;
      int const last = first + neurons_per_task < part.num_neurons ? first + neurons_per_task : part.num_neurons;
      if (first == 0) pass_on_stamps(team, slot);
      copy_neurons(team, slot, first, last);
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void pass_on_stamps(Member const& team, int slot) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, line), [&](int lane) {
      if (part.live_stamps(slot + lane) == stamp) live_stamps(slot + lane) = stamp;
    });
  }

  KOKKOS_FORCEINLINE_FUNCTION void copy_neurons(Member const& team, int slot, int first, int last) const {
    auto const from_step = static_cast<std::size_t>(part.tile_samples);
    auto const to_step = static_cast<std::size_t>(tile_samples);
    auto const from = sample_of_slot(part.activations, slot, part.num_neurons, part.tile_samples);
    auto const to = part_of(sample_of_slot(target, slot, num_neurons, tile_samples),
                            static_cast<std::size_t>(part.first_neuron) * to_step);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, first, last), [&](int neuron) {
      auto const from_line = part_of(from, static_cast<std::size_t>(neuron) * from_step, line);
      auto const to_line = part_of(to, static_cast<std::size_t>(neuron) * to_step, line);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, line), [&](int lane) { to_line(lane) = from_line(lane); });
    });
  }
};

/// Launches JoinNeurons. Does not fence.
template <class ExecutionSpace, class Scalar>
void join_neurons(ExecutionSpace const& space, JoinNeurons<ExecutionSpace, Scalar> kernel) {
  using Kernel = JoinNeurons<ExecutionSpace, Scalar>;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  if (kernel.num_slots == 0 || kernel.part.num_neurons == 0) return;
  kernel.line = kernel.part.tile_samples < kernel.tile_samples ? kernel.part.tile_samples : kernel.tile_samples;
  int const lines = num_tiles(kernel.num_slots, kernel.line);
  kernel.neurons_per_task =
      Tune::blocks_per_task(num_processors(space), lines, kernel.part.num_neurons, 4 * Tune::move_team_size);
  int const num_tasks = lines * ((kernel.part.num_neurons + kernel.neurons_per_task - 1) / kernel.neurons_per_task);
  typename Kernel::Policy const policy(space, Tune::league_size(num_processors(space), num_tasks),
                                       +Tune::move_team_size, +Tune::move_lanes);
  launch_teams("varve::join_neurons", policy, kernel);
}

/// Counts the positions that carry a stamp.
struct CountLive {
  ArrayView<int const> live_stamps;
  int stamp;

  KOKKOS_FUNCTION void operator()(int position, int& count) const { count += live_stamps(position) == stamp ? 1 : 0; }
};

} // namespace varve
