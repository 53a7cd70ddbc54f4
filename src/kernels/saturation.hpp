#pragma once

#include "core/execution.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// Finds the saturated samples of a panel, whose activations all equal `cap`: sets unsaturated_stamps(p) = stamp for
/// all other samples. A task is 32 positions and 128 neurons. league x team threads: tasks, in strides; vector lanes:
/// samples. A lane reads its sample until it meets another value, which unsaturated samples have near the beginning.
/// Where most samples are saturated, it reads the panel once: bound by memory bandwidth.
template <class ExecutionSpace, class Scalar>
struct FindSaturated {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int samples_per_task = 32;
  static constexpr int neurons_per_task = 128;

  ArrayView<Scalar const> panel;
  int tile_samples;
  ArrayView<int const> num_samples; ///< one element: samples in the panel
  int num_neurons;
  Scalar cap;
  ArrayView<int> unsaturated_stamps;
  int stamp;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const count = num_samples(0);
    int const ranges = (num_neurons + neurons_per_task - 1) / neurons_per_task;
    int const num_tasks = (count + samples_per_task - 1) / samples_per_task * ranges;
    int const tasks_at_a_time = team.league_size() * team.team_size();
    for (int task = team.league_rank() * team.team_size() + team.team_rank(); task < num_tasks;
         task += tasks_at_a_time) {
      int const first = task / ranges * samples_per_task;
      int const samples = count - first < samples_per_task ? count - first : samples_per_task;
      int const neuron = task % ranges * neurons_per_task;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, samples),
                           [&](int sample) { look_at(first + sample, neuron); });
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void look_at(int position, int first) const {
    if (unsaturated_stamps(position) == stamp) return; // another task has found the sample unsaturated
    int const last = first + neurons_per_task < num_neurons ? first + neurons_per_task : num_neurons;
    auto const activations = sample_of_slot(panel, position, num_neurons, tile_samples);
    for (int neuron = first; neuron < last; ++neuron) {
      if (activations(static_cast<std::size_t>(neuron) * static_cast<std::size_t>(tile_samples)) == cap) continue;
      store_common(unsaturated_stamps(position), stamp);
      return;
    }
  }
};

/// Launches FindSaturated for at most `max_samples` samples in slots in order. Does not fence.
template <class ExecutionSpace, class Scalar>
void find_saturated(ExecutionSpace const& space, FindSaturated<ExecutionSpace, Scalar> const& kernel, int max_samples) {
  using Kernel = FindSaturated<ExecutionSpace, Scalar>;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  int const ranges = (kernel.num_neurons + Kernel::neurons_per_task - 1) / Kernel::neurons_per_task;
  int const num_tasks = (max_samples + Kernel::samples_per_task - 1) / Kernel::samples_per_task * ranges;
  if (num_tasks == 0) return;
  int const teams = (num_tasks + Tune::move_team_size - 1) / Tune::move_team_size;
  typename Kernel::Policy const policy(space, Tune::league_size(num_processors(space), teams), Tune::move_team_size,
                                       Tune::move_lanes);
  launch_teams("varve::find_saturated", policy, kernel);
}

} // namespace varve
