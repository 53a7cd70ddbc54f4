#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// Initializes a panel: slot i holds sample i, no slot is stamped, counts(0) = num_samples, all other counts are 0, and
/// no sample is represented by another. Index: 0 up to the larger of num_samples and num_counts.
struct StartPanel {
  ArrayView<int> ids;
  ArrayView<int> live_stamps;
  ArrayView<int> unsaturated_stamps;
  ArrayView<int> counts;
  int num_samples;
  int num_counts;
  ArrayView<int> represented_by; ///< see EqualSamples; empty if equal samples are not searched
  ArrayView<int> pays_off;       ///< see EqualSamples; empty if equal samples are not searched

  KOKKOS_FUNCTION void operator()(int i) const {
    if (represented_by.data() != nullptr && i < num_samples) represented_by(i) = i;
    if (represented_by.data() != nullptr && i == 0) pays_off(0) = 1;
    if (i < num_samples) ids(i) = i;
    if (i < num_samples) live_stamps(i) = unsaturated_stamps(i) = 0;
    if (i < num_counts) counts(i) = i == 0 ? num_samples : 0;
  }
};

/// The samples whose result is known before the last layer because they are saturated and all later layers keep them
/// saturated.
struct SaturatedSamples {
  ArrayView<int> ids = {};
  ArrayView<int> count = {}; ///< one element: the length of the list

  KOKKOS_FORCEINLINE_FUNCTION void append(int id) const { ids(Kokkos::atomic_fetch_add(&count(0), 1)) = id; }
};

/// Lists the slots that hold live samples, in order: a scan over the slots of the panel.
///   position p of slot s = number of live slots before s; from_slot(p) = s; next_ids(p) = ids(s)
/// A slot below num_slots is live if its live stamp equals `stamp`, or if `stamp` is negative. If `unsaturated_stamps`
/// is given, live slots whose unsaturated stamp differs from `stamp` are added to the list of saturated samples
/// instead, in any order. Reads 8 to 12 bytes and writes 8 per slot.
template <class ExecutionSpace>
struct ListLiveSamples {
  ArrayView<int const> num_slots; ///< one element: slots in use
  ArrayView<int> num_live;        ///< one element: slots listed
  ArrayView<int const> live_stamps;
  int stamp;
  ArrayView<int const> ids;
  ArrayView<int> next_ids;
  ArrayView<int> from_slot;
  int max_slots;
  ArrayView<int const> unsaturated_stamps = {};
  SaturatedSamples saturated = {};

  /// The body of parallel_scan.
  KOKKOS_FUNCTION void operator()(int slot, int& position, bool is_final) const {
    bool const goes_on = slot < num_slots(0) && is_listed(slot);
    if (is_final && slot < num_slots(0)) put(slot, goes_on, position);
    position += goes_on ? 1 : 0;
    if (is_final && slot == max_slots - 1) num_live(0) = position;
  }

  /// True if saturated samples leave the list.
  KOKKOS_FORCEINLINE_FUNCTION bool seeks_saturated() const { return unsaturated_stamps.data() != nullptr; }

  /// True if a slot in use is added to the list of live samples.
  KOKKOS_FORCEINLINE_FUNCTION bool is_listed(int slot) const {
    return is_live(slot) && (!seeks_saturated() || unsaturated_stamps(slot) == stamp);
  }

  /// Writes a slot in use to its list: if goes_on, to `position` of the live samples, else, if it is live, to the
  /// saturated samples.
  KOKKOS_FORCEINLINE_FUNCTION void put(int slot, bool goes_on, int position) const {
    if (goes_on) {
      from_slot(position) = slot;
      next_ids(position) = ids(slot);
    } else if (seeks_saturated() && is_live(slot)) {
      saturated.append(ids(slot));
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION bool is_live(int slot) const { return stamp < 0 || live_stamps(slot) == stamp; }
};

/// Computes the list of ListLiveSamples in one launch; a scan needs two. Each team lists 512 slots and finds the
/// position of the first by counting the live samples in all slots before it. Reads 4 bytes (8 with unsaturated_stamps)
/// for each pair of a team and a slot before it, so it is for GPUs and at most slot_limit slots. Bound by latency.
template <class ExecutionSpace>
struct CountAndListLiveSamples {
  static constexpr int team_size = 512;
  static constexpr int slot_limit = 1 << 17; ///< above this, counting costs more than the scan's second launch
  static constexpr int slots_per_load = 4;
  static constexpr int loads_at_a_time = 8; ///< loads that a thread has in flight
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<team_size, 2>>;
  using Member = typename Policy::member_type;
  using Stamps = Pack<int, slots_per_load>;

  ListLiveSamples<ExecutionSpace> list;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const first = team.league_rank() * team_size;
    int const num_slots = list.num_slots(0);
    if (first >= num_slots && first > 0) return;
    int before = 0;
    int const loads = first / slots_per_load;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, team_size),
        [&](int thread, int& sum) {
          for (int number = thread; number < loads; number += loads_at_a_time * team_size) {
            VARVE_UNROLL
            for (int i = 0; i < loads_at_a_time; ++i) {
              int const next = number + i * team_size;
              if (next < loads) sum += count_listed(next);
            }
          }
        },
        before);
    int const slot = first + team.team_rank();
    bool const is_held = slot < num_slots;
    bool const goes_on = is_held && list.is_listed(slot);
    int const position = before + team.team_scan(goes_on ? 1 : 0);
    if (is_held) list.put(slot, goes_on, position);
    if (team.team_rank() == team_size - 1 && first + team_size >= num_slots)
      list.num_live(0) = position + (goes_on ? 1 : 0);
  }

private:
  /// The number of slots of one load, all of them in use, that are added to the list.
  KOKKOS_FORCEINLINE_FUNCTION int count_listed(int number) const {
    if (list.stamp < 0 && !list.seeks_saturated()) return slots_per_load;
    Stamps const live = piece_of<Stamps>(list.live_stamps, number);
    Stamps const unsaturated =
        piece_of<Stamps>(list.seeks_saturated() ? list.unsaturated_stamps : list.live_stamps, number);
    int count = 0;
    for (int i = 0; i < slots_per_load; ++i) {
      bool const is_live = list.stamp < 0 || live.lane[i] == list.stamp;
      count += is_live && (!list.seeks_saturated() || unsaturated.lane[i] == list.stamp) ? 1 : 0;
    }
    return count;
  }
};

/// Compacts the live samples of a panel: target(p) = source(from_slot(p)) for all neurons; the tiles of source and
/// target may differ in their number of samples. league: tasks, in strides; a task is 32 target slots and a range of
/// neurons. team threads: neurons; vector lanes: slots. Reads and writes each live activation once: bound by memory
/// bandwidth (at worst one value per line is used).
template <class ExecutionSpace, class Scalar>
struct MoveLiveSamples {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int slots_per_task = 32;
  static constexpr int in_flight = 8;

  ArrayView<Scalar const> source;
  ArrayView<Scalar> target;
  int source_tile_samples;
  int target_tile_samples;
  ArrayView<int const> num_live;  ///< one element: positions in use
  ArrayView<int const> from_slot; ///< empty: position p is in slot p
  int num_neurons;
  int neurons_per_task;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const live = num_live(0);
    int const parts = (num_neurons + neurons_per_task - 1) / neurons_per_task;
    int const num_tasks = (live + slots_per_task - 1) / slots_per_task * parts;
    for (int task = team.league_rank(); task < num_tasks; task += team.league_size()) {
      int const first_slot = task / parts * slots_per_task;
      int const count = live - first_slot < slots_per_task ? live - first_slot : slots_per_task;
      int const first = task % parts * neurons_per_task;
      int const last = first + neurons_per_task < num_neurons ? first + neurons_per_task : num_neurons;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, count), [&](int i) {
        int const slot = first_slot + i;
        int const source_slot = from_slot.data() == nullptr ? slot : from_slot(slot);
        auto const from = sample_of_slot(source, source_slot, num_neurons, source_tile_samples);
        auto const to = sample_of_slot(target, slot, num_neurons, target_tile_samples);
        int const step = team.team_size();
        for (int neuron = first + team.team_rank(); neuron < last; neuron += in_flight * step) {
          Scalar value[in_flight]; // all loads precede the first store, which might alias them
          VARVE_UNROLL
          for (int k = 0; k < in_flight; ++k) {
            if (neuron + k * step < last)
              value[k] =
                  from(static_cast<std::size_t>(neuron + k * step) * static_cast<std::size_t>(source_tile_samples));
          }
          VARVE_UNROLL
          for (int k = 0; k < in_flight; ++k) {
            if (neuron + k * step < last)
              to(static_cast<std::size_t>(neuron + k * step) * static_cast<std::size_t>(target_tile_samples)) =
                  value[k];
          }
        }
      });
    }
  }
};

/// Launches ListLiveSamples, or CountAndListLiveSamples where that is faster. Does not fence.
template <class ExecutionSpace>
void list_live_samples(ExecutionSpace const& space, ListLiveSamples<ExecutionSpace> const& list) {
  if constexpr (!kOnHost<ExecutionSpace>) {
    using Kernel = CountAndListLiveSamples<ExecutionSpace>;
    if (list.max_slots <= Kernel::slot_limit) {
      typename Kernel::Policy const policy(space, (list.max_slots + Kernel::team_size - 1) / Kernel::team_size,
                                           +Kernel::team_size);
      launch_teams("varve::list_live_samples", policy, Kernel{list});
      return;
    }
  }
  constexpr int few_slots = 4096; // one thread is faster than starting others
  if (list.max_slots <= few_slots) {
    Kokkos::parallel_scan("varve::list_live_samples", in_short_space(space, list.max_slots), list);
    return;
  }
  Kokkos::parallel_scan("varve::list_live_samples", Kokkos::RangePolicy<ExecutionSpace>(space, 0, list.max_slots),
                        list);
}

/// Launches MoveLiveSamples for at most `max_live` samples. Does not fence.
template <class ExecutionSpace, class Scalar>
void move_live_samples(ExecutionSpace const& space, MoveLiveSamples<ExecutionSpace, Scalar> kernel, int max_live) {
  using Kernel = MoveLiveSamples<ExecutionSpace, Scalar>;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  int const groups = (max_live + Kernel::slots_per_task - 1) / Kernel::slots_per_task;
  if (groups == 0 || kernel.num_neurons == 0) return;
  kernel.neurons_per_task =
      Tune::blocks_per_task(num_processors(space), groups, kernel.num_neurons, 4 * Tune::move_team_size);
  int const num_tasks = groups * ((kernel.num_neurons + kernel.neurons_per_task - 1) / kernel.neurons_per_task);
  typename Kernel::Policy const policy(space, Tune::league_size(num_processors(space), num_tasks), Tune::move_team_size,
                                       Tune::move_lanes);
  launch_teams("varve::move_live_samples", policy, kernel);
}

/// Work on all positions of a panel and all neurons: a task is 32 positions and a range of up to RangeNeurons neurons.
/// league x team threads: tasks, in strides; vector lanes: positions.
template <class ExecutionSpace, class Scalar, int RangeNeurons>
struct PanelTasks {
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int positions = 32;

  /// Calls work(position, first neuron, last neuron exclusive) for all positions below `count` and ranges of neurons.
  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION static void for_each(Member const& team, int count, int num_neurons, Work const& work) {
    int const ranges = (num_neurons + RangeNeurons - 1) / RangeNeurons;
    int const num_tasks = (count + positions - 1) / positions * ranges;
    int const tasks_at_a_time = team.league_size() * team.team_size();
    for (int task = team.league_rank() * team.team_size() + team.team_rank(); task < num_tasks;
         task += tasks_at_a_time) {
      int const first = task / ranges * positions;
      int const samples = count - first < positions ? count - first : positions;
      int const neuron = task % ranges * RangeNeurons;
      int const last = neuron + RangeNeurons < num_neurons ? neuron + RangeNeurons : num_neurons;
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, samples),
                           [&](int sample) { work(first + sample, neuron, last); });
    }
  }

  /// The launch for at most max_count positions, of which there must be some, as there must be neurons.
  static Policy policy(ExecutionSpace const& space, int max_count, int num_neurons) {
    int const ranges = (num_neurons + RangeNeurons - 1) / RangeNeurons;
    int const num_tasks = (max_count + positions - 1) / positions * ranges;
    int const teams = (num_tasks + Tune::move_team_size - 1) / Tune::move_team_size;
    return Policy(space, Tune::league_size(num_processors(space), teams), Tune::move_team_size, Tune::move_lanes);
  }
};

/// Finds the saturated samples of a panel, whose activations all equal `cap`: sets unsaturated_stamps(p) = stamp for
/// all other samples. league, team and lanes: PanelTasks. A lane reads its sample up to the first other value, which
/// unsaturated samples have near the beginning. If most samples are saturated, it reads the panel once: bound by memory
/// bandwidth.
template <class ExecutionSpace, class Scalar>
struct FindSaturated {
  using Tasks = PanelTasks<ExecutionSpace, Scalar, 128>;

  ArrayView<Scalar const> panel;
  int tile_samples;
  ArrayView<int const> num_samples; ///< one element: samples in the panel
  int num_neurons;
  Scalar cap;
  ArrayView<int> unsaturated_stamps;
  int stamp;

  KOKKOS_FUNCTION void operator()(typename Tasks::Member const& team) const {
    Tasks::for_each(team, num_samples(0), num_neurons,
                    [&](int position, int first, int last) { look_at(position, first, last); });
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void look_at(int position, int first, int last) const {
    if (unsaturated_stamps(position) == stamp) return; // another task has found the sample unsaturated
    auto const activations = sample_of_slot(panel, position, num_neurons, tile_samples);
    for (int neuron = first; neuron < last; ++neuron) {
      if (activations(static_cast<std::size_t>(neuron) * static_cast<std::size_t>(tile_samples)) == cap) continue;
      store_common(unsaturated_stamps(position), stamp);
      return;
    }
  }
};

/// Launches FindSaturated for at most `max_samples` samples; position p must be slot p. Does not fence.
template <class ExecutionSpace, class Scalar>
void find_saturated(ExecutionSpace const& space, FindSaturated<ExecutionSpace, Scalar> const& kernel, int max_samples) {
  using Tasks = typename FindSaturated<ExecutionSpace, Scalar>::Tasks;
  if (max_samples == 0 || kernel.num_neurons == 0) return;
  launch_teams("varve::find_saturated", Tasks::policy(space, max_samples, kernel.num_neurons), kernel);
}

} // namespace varve
