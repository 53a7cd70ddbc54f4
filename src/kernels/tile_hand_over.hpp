#pragma once

#include "core/execution.hpp"
#include "core/views.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/tile.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace varve {

/// Host only: compacts the activations of some samples of a tile, neuron by neuron, by permuting the lanes of whole
/// packs (a host tile has one lane). Reads and writes each line once; three instructions per pack.
template <class Tile>
class KeptLines {
public:
  using Scalar = typename Tile::Scalar;
  static constexpr int width = Tile::pack_width;
  static_assert(Tile::num_lanes == 1);

  /// A line of activations, with room for the lanes that the last pack stores past its end.
  struct alignas(sizeof(typename Tile::PackType)) Line {
    Scalar values[Tile::num_samples + width];
  };

  /// kept: indices of the samples to keep, within the tile, ascending.
  KeptLines(ArrayView<int const> const& kept, int num_kept) {
    for (int pack = 0, next = 0; pack < Tile::packs_per_lane; ++pack) {
      int& count = counts_[pack];
      for (count = 0; next < num_kept && kept(next) < (pack + 1) * width; ++next)
        orders_[pack].lane[count++] = kept(next) - pack * width;
      for (int i = count; i < width; ++i) orders_[pack].lane[i] = 0;
    }
  }

  /// Writes a neuron's activations of the kept samples to the front of `line`.
  void gather(Line& line, ArrayView<Scalar const> const& tile, int neuron) const {
    Scalar* end = line.values;
    for (int pack = 0; pack < Tile::packs_per_lane; ++pack) {
      typename Tile::PackType reordered;
      reorder_lanes(reordered, Tile::pack_at(tile, neuron, 0, pack), orders_[pack]);
      std::memcpy(end, reordered.lane, sizeof(reordered));
      end += counts_[pack];
    }
  }

private:
  LaneIntegers<Scalar, width> orders_[Tile::packs_per_lane];
  int counts_[Tile::packs_per_lane];
};

/// Copies `count` values in pieces of constant length: Most values, then half as many, a quarter, and so on.
template <int Most, class Scalar>
inline void copy_values(Scalar* target, Scalar const* source, int count) {
  for (; count >= Most; count -= Most, target += Most, source += Most)
    std::memcpy(target, source, Most * sizeof(Scalar));
  if constexpr (Most > 1) {
    if (count > 0) copy_values<Most / 2>(target, source, count);
  }
}

/// Marks in team scratch: which samples of a tile are live, and which are not saturated. A mark is the stamp of a
/// layer, a number that grows from layer to layer, so marks are never cleared in between. Concurrent writers of a word
/// write the same stamp, so no atomics are needed.
template <class Tile, int TeamSize>
struct TileMarks {
  using Scalar = typename Tile::Scalar;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int lane_ids = TeamSize < kNumLaneIds<Tile> ? TeamSize : kNumLaneIds<Tile>;

  ArrayView<int> kept_sample; ///< index in the tile of the k-th sample that is kept
  ArrayView<int> live;        ///< stamp of the last layer after which each sample was live
  ArrayView<int> unsaturated; ///< stamp of the last layer after which each sample was found unsaturated
  ArrayView<int> shared;      ///< [Word]: last stamps of any live and any unsaturated sample; reserved target slots
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

  /// Marks a lane's samples that have a nonzero activation. Samples from `count` on are padding and never make a tile
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
  /// samples. With forgets_dead, dead samples are ignored for any_unsaturated.
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

/// Prefetch of a layer's image from the L2 to team scratch through registers: one thread's part of the first 16 KiB, in
/// flight while the team computes the layer before. Neighbouring threads of a team of TeamSize load neighbouring pieces
/// of 16 bytes.
template <int TeamSize>
struct ImagePieces {
  static constexpr int count = 16384 / 16 / TeamSize;
  struct alignas(16) Piece {
    std::uint32_t words[4];
  };
  Piece pieces[count];

  /// Issues the loads of this thread's pieces.
  KOKKOS_FORCEINLINE_FUNCTION void load(int thread, ArrayView<unsigned char const> const& image) {
    auto const bytes = static_cast<int>(image.size());
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      int const piece = thread + i * TeamSize;
      if (piece * 16 < bytes) pieces[i] = piece_of<Piece>(image, piece);
    }
  }

  /// Stores the pieces in scratch and copies the rest of an image larger than 16 KiB.
  KOKKOS_FORCEINLINE_FUNCTION void store(int thread, ArrayView<unsigned char> const& target,
                                         ArrayView<unsigned char const> const& image) const {
    auto const bytes = static_cast<int>(image.size());
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      int const piece = thread + i * TeamSize;
      if (piece * 16 < bytes) piece_of<Piece>(target, piece) = pieces[i];
    }
    for (int piece = thread + count * TeamSize; piece * 16 < bytes; piece += TeamSize)
      piece_of<Piece>(target, piece) = piece_of<Piece>(image, piece);
  }
};

/// Appends the live samples of a tile to a panel, compacted, and saturated samples to the list of finished ones. Reads
/// and writes each activation of a live sample once: bound by memory bandwidth.
template <class Tile, int TeamSize>
struct TileHandOver {
  using Scalar = typename Tile::Scalar;
  using Marks = TileMarks<Tile, TeamSize>;
  static constexpr int num_samples = Tile::num_samples;

  ArrayView<int const> ids; ///< the sample in each slot of the source panel
  ArrayView<Scalar> target; ///< tiles of target_tile_samples samples
  int target_tile_samples;
  ArrayView<int> num_kept; ///< one element: target slots reserved so far
  ArrayView<int> kept_ids; ///< the sample in each slot of the target
  SaturatedSamples saturated;
  bool keeps_dead; ///< dead samples are kept, because a later layer may revive them

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
  /// One thread lists the samples that are kept and reserves target slots for them.
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

  /// Host only: the same as move_values(), by whole lines.
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
