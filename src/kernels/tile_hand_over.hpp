#pragma once

#include "core/execution.hpp"
#include "kernels/kept_lines.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/tile_marks.hpp"

#include <cstddef>

namespace varve {

/// Appends the live samples of a tile to a panel, packed, and saturated samples to the list of finished ones.
/// Reads and writes each activation of a live sample once: bound by memory bandwidth.
template <class Tile, int TeamSize>
struct TileHandOver {
  using Scalar = typename Tile::Scalar;
  using Marks = TileMarks<Tile, TeamSize>;
  static constexpr int num_samples = Tile::num_samples;

  ArrayView<int const> ids; ///< the sample in each slot of the source panel
  ArrayView<Scalar> target; ///< packed tiles of target_tile_samples
  int target_tile_samples;
  ArrayView<int> num_kept; ///< one element: target slots taken so far
  ArrayView<int> kept_ids; ///< the sample in each slot of the target
  SaturatedSamples saturated;
  bool keeps_dead; ///< a later layer may revive samples without activations

  /// All threads of a team call it. `activations`: a tile of `count` samples, whose first slot is `first_slot`. `marks`
  /// holds `stamp` for live samples and, if saturated samples were searched, for unsaturated ones.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void operator()(Member const& team, int first_slot, int count,
                                              ArrayView<Scalar const> const& activations, int num_neurons,
                                              bool looked_for_saturated, Marks const& marks, int stamp) const {
    int const thread = team.team_rank();
    if (thread == 0) choose(first_slot, count, looked_for_saturated, marks, stamp);
    team.team_barrier();
    int const first = marks.shared(Marks::first_kept);
    int const kept = marks.shared(Marks::num_kept);
    for (int k = thread; k < kept; k += TeamSize) kept_ids(first + k) = ids(first_slot + marks.kept_sample(k));
    for (int k = 0, end = 0; k < kept; k = end) { // one round per target tile
      int const room = target_tile_samples - (first + k) % target_tile_samples;
      end = kept - k < room ? kept : k + room;
      auto const to = sample_of_slot(target, first + k, num_neurons, target_tile_samples);
      auto const moved = part_of(marks.kept_sample, k, end - k);
      // clang-format off
      KOKKOS_IF_ON_DEVICE((move_values(thread, to, activations, moved, end - k, num_neurons);))
      KOKKOS_IF_ON_HOST((move_lines(thread, to, activations, moved, end - k, num_neurons);))
      // clang-format on
    }
  }

private:
  /// One thread lists the samples that are handed over and reserves target slots for them.
  KOKKOS_FORCEINLINE_FUNCTION void choose(int first_slot, int count, bool looked_for_saturated, Marks const& marks,
                                          int stamp) const {
    int kept = 0;
    for (int sample = 0; sample < count; ++sample) {
      bool const is_live = marks.live(sample) == stamp;
      if (is_live && looked_for_saturated && marks.unsaturated(sample) != stamp) {
        saturated.append(ids(first_slot + sample));
      } else if (keeps_dead || is_live) {
        marks.kept_sample(kept++) = sample;
      }
    }
    marks.shared(Marks::first_kept) = Kokkos::atomic_fetch_add(&num_kept(0), kept);
    marks.shared(Marks::num_kept) = kept;
  }

  /// Copies samples kept(0) ... kept(count - 1) of the tile to neighbouring slots of a target tile, value by value.
  KOKKOS_FORCEINLINE_FUNCTION void move_values(int thread, ArrayView<Scalar> const& to,
                                               ArrayView<Scalar const> const& activations,
                                               ArrayView<int const> const& kept, int count, int num_neurons) const {
    constexpr int threads_per_neuron = TeamSize > num_samples ? num_samples : 1;
    int const first = thread % threads_per_neuron;
    for (int neuron = thread / threads_per_neuron; neuron < num_neurons; neuron += TeamSize / threads_per_neuron) {
      auto const line =
          part_of(to, static_cast<std::size_t>(neuron) * static_cast<std::size_t>(target_tile_samples), count);
      auto const values = part_of(activations, neuron * num_samples, num_samples);
      for (int i = first; i < count; i += threads_per_neuron) line(i) = values(kept(i));
    }
  }

  /// Host only: does what move_values() does, by whole lines.
  void move_lines(int thread, ArrayView<Scalar> const& to, ArrayView<Scalar const> const& activations,
                  ArrayView<int const> const& kept, int count, int num_neurons) const {
    if constexpr (Tile::num_lanes == 1) {
      KeptLines<Tile> const lines(kept, count);
      typename KeptLines<Tile>::Line line;
      for (int neuron = thread; neuron < num_neurons; neuron += TeamSize) {
        lines.gather(line, activations, neuron);
        auto const place = static_cast<std::size_t>(neuron) * static_cast<std::size_t>(target_tile_samples);
        copy_values<Tile::pack_width>(part_of(to, place, count).data(), line.values, count);
      }
    }
  }
};

} // namespace varve
