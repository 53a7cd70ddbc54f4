#pragma once

#include "core/execution.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/tile.hpp"

#include <type_traits>

namespace varve {

/// Work arrays of the search for equal samples, indexed by position unless stated otherwise.
struct EqualSamples {
  ArrayView<std::uint64_t> hashes = {};
  ArrayView<int> table = {};          ///< hash table of positions, open addressing; kNoPosition: free
  int table_mask = 0;                 ///< size of the table, a power of two, less 1
  ArrayView<int> candidate = {};      ///< first position found with the same hash; the position itself if there is none
  ArrayView<int> pays_off = {};       ///< one element; 0: a search found too few, the run searches no more
  ArrayView<int> represented_by = {}; ///< [sample]: the equal sample found; the sample itself if none
  std::uint64_t hash_mask = ~std::uint64_t(0); ///< bits of a hash that are used (tests clear most to force collisions)
};

/// Marks a free place in EqualSamples::table.
inline constexpr int kNoPosition = -1;

/// The samples of a panel that take part in the search: position p < count is in slot from_slot(p).
template <class Scalar>
struct PanelPositions {
  ArrayView<Scalar const> panel;
  int tile_samples;
  int num_neurons;
  ArrayView<int const> from_slot; ///< empty: position p is in slot p
  ArrayView<int const> count;     ///< one element: the number of positions

  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar const> activations(int position) const {
    int const slot = from_slot.data() == nullptr ? position : from_slot(position);
    return sample_of_slot(panel, slot, num_neurons, tile_samples);
  }

  /// Loads the bits of Count neighbouring neurons, all loads in flight at once; zero from neuron `last` on.
  template <class Bits, int Count>
  KOKKOS_FORCEINLINE_FUNCTION void load(Bits (&bits)[Count], ArrayView<Scalar const> const& activations, int neuron,
                                        int last) const {
    VARVE_UNROLL
    for (int i = 0; i < Count; ++i) {
      bits[i] = neuron + i < last ? Kokkos::bit_cast<Bits>(activations(static_cast<std::size_t>(neuron + i) *
                                                                       static_cast<std::size_t>(tile_samples)))
                                  : Bits(0);
    }
  }
};

/// Clears the hashes and the table. Index: 0 up to the larger of their sizes.
struct StartEqualSamples {
  EqualSamples equal;
  int max_samples;

  KOKKOS_FUNCTION void operator()(int i) const {
    if (i < max_samples) equal.hashes(i) = 0;
    if (i <= equal.table_mask) equal.table(i) = kNoPosition;
  }
};

/// hashes(p) += a hash of the bits of a range of p's activations. league, team and lanes: PanelTasks. Reads the live
/// part of the panel once: bound by memory bandwidth.
template <class ExecutionSpace, class Scalar>
struct HashSamples {
  using Tasks = PanelTasks<ExecutionSpace, Scalar, 64>;
  using Member = typename Tasks::Member;
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
  static constexpr int in_flight = 8;

  PanelPositions<Scalar> positions;
  EqualSamples equal;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    if (equal.pays_off(0) == 0) return;
    Tasks::for_each(team, positions.count(0), positions.num_neurons, [&](int position, int first, int last) {
      auto const activations = positions.activations(position);
      std::uint64_t hash = static_cast<std::uint64_t>(first) + 1;
      for (int neuron = first; neuron < last; neuron += in_flight) {
        Bits bits[in_flight];
        positions.load(bits, activations, neuron, last);
        VARVE_UNROLL
        for (int i = 0; i < in_flight; ++i) {
          hash = (hash ^ bits[i]) * 0x9e3779b97f4a7c15ULL;
          hash ^= hash >> 29U;
        }
      }
      Kokkos::atomic_add(&equal.hashes(position), hash);
    });
  }
};

/// Inserts the hashes into the table. The first sample with a hash is stamped live and becomes the candidate of later
/// samples with this hash. Index: position.
struct FindCandidates {
  ArrayView<int const> count; ///< one element: the number of positions
  EqualSamples equal;
  ArrayView<int> live_stamps;
  int stamp;

  KOKKOS_FUNCTION void operator()(int position) const {
    if (position >= count(0)) return;
    int const found = equal.pays_off(0) == 0 ? position : find_or_insert(position);
    equal.candidate(position) = found;
    if (found == position) live_stamps(position) = stamp;
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION int find_or_insert(int position) const {
    std::uint64_t const hash = equal.hashes(position) & equal.hash_mask;
    int place = static_cast<int>((hash >> 20U) & static_cast<std::uint64_t>(equal.table_mask));
    for (;; place = (place + 1) & equal.table_mask) {
      int const holder = Kokkos::atomic_compare_exchange(&equal.table(place), kNoPosition, position);
      if (holder == kNoPosition) return position;
      if ((equal.hashes(holder) & equal.hash_mask) == hash) return holder;
    }
  }
};

/// Compares all bits of each sample with its candidate, because different samples may have equal hashes, and stamps the
/// samples that differ live. league, team and lanes: PanelTasks. Reads the activations of both samples:
/// bound by memory bandwidth.
template <class ExecutionSpace, class Scalar>
struct CompareWithCandidates {
  using Hash = HashSamples<ExecutionSpace, Scalar>;
  using Bits = typename Hash::Bits;

  PanelPositions<Scalar> positions;
  EqualSamples equal;
  ArrayView<int> live_stamps;
  int stamp;

  KOKKOS_FUNCTION void operator()(typename Hash::Member const& team) const {
    if (equal.pays_off(0) == 0) return;
    Hash::Tasks::for_each(team, positions.count(0), positions.num_neurons, [&](int position, int first, int last) {
      if (live_stamps(position) == stamp) return;
      auto const mine = positions.activations(position);
      auto const others = positions.activations(equal.candidate(position));
      Bits difference = 0;
      for (int neuron = first; neuron < last && difference == 0; neuron += Hash::in_flight) {
        Bits my_bits[Hash::in_flight];
        Bits other_bits[Hash::in_flight];
        positions.load(my_bits, mine, neuron, last);
        positions.load(other_bits, others, neuron, last);
        VARVE_UNROLL
        for (int i = 0; i < Hash::in_flight; ++i) difference |= my_bits[i] ^ other_bits[i];
      }
      if (difference != 0) store_common(live_stamps(position), stamp);
    });
  }
};

/// Lists the stamped positions in order; the sample at each other position is then represented by its candidate. A scan
/// over the positions:
///   position p' of p = number of stamped positions before p; next_from_slot(p') = slot of p; next_ids(p') = ids(p)
template <class ExecutionSpace>
struct ListDistinctSamples {
  ArrayView<int const> count;  ///< one element: the number of positions
  ArrayView<int> num_distinct; ///< one element: the number of stamped positions
  ArrayView<int const> live_stamps;
  int stamp;
  ArrayView<int const> ids;
  ArrayView<int> next_ids;
  ArrayView<int const> from_slot; ///< empty: position p is in slot p
  ArrayView<int> next_from_slot;
  EqualSamples equal;
  int max_samples;

  KOKKOS_FUNCTION void operator()(int position, int& distinct, bool is_final) const {
    int const positions = count(0);
    bool const exists = position < positions;
    bool const stays = exists && live_stamps(position) == stamp;
    if (is_final && stays) {
      next_from_slot(distinct) = from_slot.data() == nullptr ? position : from_slot(position);
      next_ids(distinct) = ids(position);
    }
    if (is_final && exists && !stays) equal.represented_by(ids(position)) = ids(equal.candidate(position));
    distinct += stays ? 1 : 0;
    if (is_final && position == max_samples - 1) {
      num_distinct(0) = distinct;
      constexpr int min_part = 32;
      if ((positions - distinct) * min_part < positions) equal.pays_off(0) = 0;
    }
  }
};

/// Finds samples that are equal in all bits and lists one of each set. Equal samples have equal activations in all
/// later layers, because a layer's result depends on these activations alone, so one result serves them all. `list` has
/// the arrays for the listed positions. Launches five kernels; does not fence.
template <class ExecutionSpace, class Scalar>
void list_distinct_samples(ExecutionSpace const& space, PanelPositions<Scalar> const& positions,
                           ListDistinctSamples<ExecutionSpace> const& list, ArrayView<int> const& live_stamps) {
  using Hash = HashSamples<ExecutionSpace, Scalar>;
  using Compare = CompareWithCandidates<ExecutionSpace, Scalar>;
  using Range = Kokkos::RangePolicy<ExecutionSpace>;
  EqualSamples const& equal = list.equal;
  int const max_samples = list.max_samples;
  if (max_samples == 0 || positions.num_neurons == 0) return;
  auto const tasks = Hash::Tasks::policy(space, max_samples, positions.num_neurons);
  Kokkos::parallel_for("varve::start_equal_samples",
                       Range(space, 0, max_samples > equal.table_mask ? max_samples : equal.table_mask + 1),
                       StartEqualSamples{equal, max_samples});
  launch_teams("varve::hash_samples", tasks, Hash{positions, equal});
  Kokkos::parallel_for("varve::find_candidates", Range(space, 0, max_samples),
                       FindCandidates{positions.count, equal, live_stamps, list.stamp});
  launch_teams("varve::compare_with_candidates", tasks, Compare{positions, equal, live_stamps, list.stamp});
  Kokkos::parallel_scan("varve::list_distinct_samples", Range(space, 0, max_samples), list);
}

} // namespace varve
