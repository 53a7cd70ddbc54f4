#pragma once

#include "kernels/tile.hpp"

namespace varve {

/// Marks in team scratch: which samples of a tile are live, and which are not saturated. A mark is the stamp of a
/// layer, a number that grows from layer to layer, so marks are never cleared in between. Concurrent writers of a word
/// write the same stamp, so no atomics are needed.
template <class Tile, int TeamSize>
struct TileMarks {
  using Scalar = typename Tile::Scalar;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int lane_ids = TeamSize < kNumLaneIds<Tile> ? TeamSize : kNumLaneIds<Tile>;

  ArrayView<int> kept_sample; ///< index in the tile of the k-th sample that is handed over
  ArrayView<int> live;        ///< stamp of the last layer after which each sample was live
  ArrayView<int> unsaturated; ///< stamp of the last layer after which each sample was found unsaturated
  ArrayView<int> shared;      ///< by Word: last stamps of any live and any unsaturated sample; target slots taken
  enum Word { any_live, any_unsaturated, first_kept, num_kept, num_words };

  static constexpr int num_numbers = 3 * num_samples + num_words;

  KOKKOS_FORCEINLINE_FUNCTION explicit TileMarks(ScratchArrays& scratch)
      : kept_sample(scratch.take<int>(num_samples)),
        live(scratch.take<int>(num_samples)),
        unsaturated(scratch.take<int>(num_samples)),
        shared(scratch.take<int>(num_words)) {}

  KOKKOS_FORCEINLINE_FUNCTION void clear(int thread) const {
    for (int sample = thread; sample < num_samples; sample += TeamSize) live(sample) = unsaturated(sample) = 0;
    if (thread == 0) shared(any_live) = shared(any_unsaturated) = 0;
  }

  /// Marks a lane's samples that have a nonzero activation. Samples from `count` on are padding: they make no tile
  /// live.
  KOKKOS_FORCEINLINE_FUNCTION void mark_live(typename Tile::Seen const (&seen)[Tile::packs_per_lane], int lane,
                                             int count, int stamp) const {
    bool any = false;
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      for (int i = 0; i < Tile::pack_width; ++i) {
        int const sample = Tile::sample_of(lane, k) + i;
        if (seen[k].lane[i] == 0) continue;
        live(sample) = stamp;
        any = any || sample < count;
      }
    }
    if (any) shared(any_live) = stamp;
  }

  /// Marks samples that have an activation other than the cap; a thread stops once it has found one in each of its
  /// samples. With forgets_dead, dead samples do not count for any_unsaturated.
  KOKKOS_FORCEINLINE_FUNCTION void mark_unsaturated(int thread, ArrayView<Scalar const> const& tile, int num_neurons,
                                                    Scalar cap, int count, bool forgets_dead, int stamp) const {
    constexpr int neurons_at_a_time = 32;
    constexpr int neuron_step = TeamSize / Tile::num_lanes;
    int const lane = thread % lane_ids;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) varve::clear(bits);
    bool all_unsaturated = false;
    for (int neuron = thread / Tile::num_lanes; neuron < num_neurons && !all_unsaturated;) {
      for (int i = 0; i < neurons_at_a_time && neuron < num_neurons; ++i, neuron += neuron_step) {
        for (int k = 0; k < Tile::packs_per_lane; ++k)
          see_difference(seen[k], Tile::pack_at(tile, neuron, lane, k), cap);
      }
      all_unsaturated = true;
      for (auto const& bits : seen) {
        for (auto const bit : bits.lane) all_unsaturated = all_unsaturated && bit != 0;
      }
    }
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      for (int i = 0; i < Tile::pack_width; ++i) {
        int const sample = Tile::sample_of(lane, k) + i;
        if (seen[k].lane[i] == 0 || sample >= count) continue;
        unsaturated(sample) = stamp;
        if (!forgets_dead || live(sample) == stamp) shared(any_unsaturated) = stamp;
      }
    }
  }
};

} // namespace varve
