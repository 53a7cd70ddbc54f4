#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "core/pack_sums.hpp"
#include "core/types.hpp"
#include "kernels/tile.hpp"
#include "network/leaf.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace varve {

/// The tiles of training: a tile is a leaf of the mini-batch (network/leaf.hpp). On CPUs a thread holds a whole line,
/// and the chains of a leaf are the lanes of its vectors. On GPUs each vector lane holds one chain in packs of 16
/// bytes, so positions are permuted within a line (PlaceInLine). Chains are assigned to lanes in bit-reversed order: so
/// the tree over chains first adds neighbouring lanes, and each half of the lanes holds one of the two subtrees added
/// last.
/// Links: on CPUs, links of each chain that a line has, all or, where a launch has few samples (with_links()), the
/// first. The others hold no sample: their errors are 0 and add nothing to any sum.
template <class ExecutionSpace, class Scalar, int Links>
struct TrainingTileOf {
  static_assert(Links == kChainLength || kOnHost<ExecutionSpace>);
  static constexpr int chains = kLeafChains<Scalar>;
  static constexpr int device_pack = 16 / static_cast<int>(sizeof(Scalar));
  using Type = std::conditional_t<kOnHost<ExecutionSpace>, TileShape<Scalar, chains, Links, 1>,
                                  TileShape<Scalar, device_pack, kChainLength / device_pack, chains>>;
};
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
using TrainingTile = typename TrainingTileOf<ExecutionSpace, Scalar, Links>::Type;

/// Calls body(links) with the links, as a constant, of the lines of a launch with num_positions samples: 1, 2 or all of
/// kChainLength. Short lines take less time and fewer cache lines. GPUs: all.
template <class ExecutionSpace, class Scalar, class Body>
auto with_links([[maybe_unused]] int num_positions, Body const& body) {
  if constexpr (kOnHost<ExecutionSpace>) {
    if (num_positions <= kLeafChains<Scalar>) return body(std::integral_constant<int, 1>());
    if (num_positions <= 2 * kLeafChains<Scalar>) return body(std::integral_constant<int, 2>());
  }
  return body(std::integral_constant<int, kChainLength>());
}

/// The numbers of all neurons of a layer for a mini-batch: [tile][neuron], each a line of one number per sample.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
using TrainingPanel = DeviceArray<ExecutionSpace, typename TrainingTile<ExecutionSpace, Scalar, Links>::Line>;
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
using ConstTrainingPanel = ConstDeviceArray<ExecutionSpace, typename TrainingTile<ExecutionSpace, Scalar, Links>::Line>;

/// Converts positions of a leaf to places within a line, and back.
template <class Tile>
struct PlaceInLine {
  static constexpr int chains = kLeafChains<typename Tile::Scalar>;

  KOKKOS_FORCEINLINE_FUNCTION static constexpr int place_of(int position) {
    if constexpr (Tile::num_lanes == 1) return position;
    int const link = position / chains; // index within the chain
    return Tile::sample_of(reversed(position % chains), link / Tile::pack_width) + link % Tile::pack_width;
  }
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int position_of(int place) {
    if constexpr (Tile::num_lanes == 1) return place;
    int const pack = place / Tile::pack_width;
    return reversed(pack % Tile::num_lanes) +
           chains * (pack / Tile::num_lanes * Tile::pack_width + place % Tile::pack_width);
  }

private:
  /// The lane that holds a chain: the bits of the chain's number, reversed.
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int reversed(int chain) {
    int lane = 0;
    for (int bit = 1; bit < chains; bit *= 2) lane = 2 * lane + ((chain & bit) != 0 ? 1 : 0);
    return lane;
  }
};

/// The number at a place (PlaceInLine) of a line of a panel.
template <class Panel>
KOKKOS_FORCEINLINE_FUNCTION auto& number_at(Panel const& panel, std::size_t line, int place) {
  constexpr int width = static_cast<int>(sizeof(panel(0).pack[0].lane) / sizeof(panel(0).pack[0].lane[0]));
  return panel(line).pack[place / width].lane[place % width];
}

/// Index of a neuron's line in a panel whose leaves have num_lines lines each.
KOKKOS_FORCEINLINE_FUNCTION std::size_t line_of(int leaf, int num_lines, int neuron) {
  return static_cast<std::size_t>(leaf) * static_cast<std::size_t>(num_lines) + static_cast<std::size_t>(neuron);
}

/// The pattern of a layer in compressed sparse rows. Weights are stored elsewhere, because they change.
template <class ExecutionSpace>
struct EdgeRows {
  ConstDeviceArray<ExecutionSpace, std::uint32_t> row_pointers; ///< first edge of each row, then the number of edges
  ConstDeviceArray<ExecutionSpace, NeuronIndex> neurons;        ///< the neuron at the other end of each edge
  int num_rows = 0;
};

/// The packs of a line that one lane holds, in registers.
template <class Tile>
struct LanePacks {
  using PackType = typename Tile::PackType;
  PackType pack[Tile::packs_per_lane];

  KOKKOS_FORCEINLINE_FUNCTION void load(typename Tile::Line const& line, int lane) {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) copy(pack[k], line.pack[k * Tile::num_lanes + lane]);
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(typename Tile::Line& line, int lane) const {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) copy(line.pack[k * Tile::num_lanes + lane], pack[k]);
  }
  KOKKOS_FORCEINLINE_FUNCTION void clear_all() {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) clear(pack[k]);
  }
};

/// Hosts: prefetches the lines of edges [first, first + count), where these are short (with_links()): the work for a
/// line then does not hide the latency of the L3. lines: those of the leaf.
template <class Tile, class Edges>
KOKKOS_FORCEINLINE_FUNCTION void fetch_lines([[maybe_unused]] typename Tile::Line const* lines,
                                             [[maybe_unused]] Edges const& edges, [[maybe_unused]] std::size_t first,
                                             [[maybe_unused]] std::size_t count) {
  if constexpr (Tile::num_samples < kLeafSamples<typename Tile::Scalar>) {
    for (std::size_t edge = first; edge < first + count && edge < edges.neurons.size(); ++edge)
      fetch(&lines[edges.neurons(edge)], 1);
  }
}

/// `count` sums over the samples of one leaf (such as gradients of neighbouring edges), in the order of
/// network/leaf.hpp. On the host one thread has all chains, `count` equals the number of chains, and lane i of total()
/// is sum i. On a device each vector lane has one chain of every sum, and total() returns sum `lane % count`. With half
/// the Lanes of the tile, the sums are over half a leaf, a subtree.
template <class Tile, int Lanes = Tile::num_lanes,
          int Count = (Lanes == 1 ? kLeafChains<typename Tile::Scalar> : Lanes)>
struct LeafSums {
  using Scalar = typename Tile::Scalar;
  static constexpr int count = Count;
  static constexpr bool on_host = Tile::num_lanes == 1;
  static_assert(on_host ? Count == kLeafChains<Scalar> : Count <= Lanes && Lanes <= Tile::num_lanes);

  /// A lane's part of each sum: a pack with all chains on the host, one chain on a device.
  using Chains = std::conditional_t<on_host, typename Tile::PackType, Scalar>;
  Chains chains[count];

  KOKKOS_FORCEINLINE_FUNCTION void clear_sum(int i) {
    if constexpr (on_host) {
      clear(chains[i]);
    } else {
      chains[i] = Scalar(0);
    }
  }

  /// Sets sum i: its chains add the products of two lines by fma.
  KOKKOS_FORCEINLINE_FUNCTION void set_sum(int i, LanePacks<Tile> const& a, LanePacks<Tile> const& b) {
    clear_sum(i);
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      if constexpr (on_host) {
        add_products(chains[i], a.pack[k], b.pack[k]);
      } else {
        for (int j = 0; j < Tile::pack_width; ++j)
          chains[i] = Kokkos::fma(a.pack[k].lane[j], b.pack[k].lane[j], chains[i]);
      }
    }
  }
  /// Sets sum i: its chains add the numbers of a line.
  KOKKOS_FORCEINLINE_FUNCTION void set_sum(int i, LanePacks<Tile> const& a) {
    clear_sum(i);
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      if constexpr (on_host) {
        add_product(chains[i], Scalar(1), a.pack[k]);
      } else {
        for (int j = 0; j < Tile::pack_width; ++j) chains[i] = chains[i] + a.pack[k].lane[j];
      }
    }
  }

  /// Adds the chains of each sum by a tree. All lanes of the thread must call it together.
  KOKKOS_FORCEINLINE_FUNCTION Chains total(int lane) {
    if constexpr (on_host) {
      KOKKOS_IF_ON_HOST((return lane_trees(chains);))
      KOKKOS_IF_ON_DEVICE((return chains[0];)) // compiled for devices, but never called there
    } else {
      add_lanes<1>(lane);
      return chains[0];
    }
  }

private:
  /// Adds lanes at distance Distance. chains[i] belongs to sum i * Distance + lane % Distance. A template, not a loop
  /// over distances: nvcc would not unroll that loop, and would keep the chains in local memory.
  template <int Distance>
  KOKKOS_FORCEINLINE_FUNCTION void add_lanes(int lane) {
    if constexpr (Distance < count) {
      bool const is_upper = (lane & Distance) != 0;
      VARVE_UNROLL
      for (int i = 0; i < count / Distance / 2; ++i) {
        Scalar const kept = is_upper ? chains[2 * i + 1] : chains[2 * i];
        Scalar const given = is_upper ? chains[2 * i] : chains[2 * i + 1];
        chains[i] = kept + from_lane(given, lane ^ Distance, +Lanes);
      }
    } else {
      chains[0] = chains[0] + from_lane(chains[0], lane ^ Distance, +Lanes);
    }
    if constexpr (2 * Distance < Lanes) add_lanes<2 * Distance>(lane);
  }
};

/// Partial sums of the binary tree over leaves, as a binary counter: after n leaves of a run, level k holds the sum of
/// 2^k leaves if bit k of n is set. Array: [run of leaves][level][sum]. Kernels for GPUs may count the halves of leaves
/// (kernels/trained_forward.hpp), which are subtrees, as leaves.
template <class ExecutionSpace, class Scalar>
struct TreeLevels {
  DeviceArray<ExecutionSpace, Scalar> sums;
  std::size_t num_sums;   ///< sums in each level
  int num_levels;         ///< levels of each run
  int leaves_per_run;     ///< a power of two
  int num_leaves;         ///< leaves, or halves of leaves
  int parts_per_leaf = 1; ///< parts that count as leaves, per leaf: 2 for ScratchBackward

  KOKKOS_FORCEINLINE_FUNCTION std::size_t place(int run, int level, std::size_t sum) const {
    return (static_cast<std::size_t>(run) * static_cast<std::size_t>(num_levels) + static_cast<std::size_t>(level)) *
               num_sums +
           sum;
  }
  KOKKOS_FORCEINLINE_FUNCTION int num_runs() const { return (num_leaves + leaves_per_run - 1) / leaves_per_run; }
  /// The leaves [first_of(run), end_of(run)) of a run.
  KOKKOS_FORCEINLINE_FUNCTION int first_of(int run) const { return run * leaves_per_run; }
  KOKKOS_FORCEINLINE_FUNCTION int end_of(int run) const {
    int const end = first_of(run) + leaves_per_run;
    return end < num_leaves ? end : num_leaves;
  }

  /// Adds one leaf's sums first ... first + count - 1, after `before` leaves of the run. sum: this lane's
  /// LeafSums::total().
  template <class Sums>
  KOKKOS_FORCEINLINE_FUNCTION void add(int run, int before, std::size_t first, int count, int lane,
                                       typename Sums::Chains sum) const {
    if constexpr (Sums::on_host) {
      int level = 0;
      for (; (before >> level & 1) != 0; ++level) {
        auto lower = sum;
        copy_some<Sums::count>(lower.lane, &sums(place(run, level, first)), count);
        add_product(sum, Scalar(1), lower);
      }
      copy_some<Sums::count>(&sums(place(run, level, first)), sum.lane, count);
    } else {
      if (lane < count) add_one(run, before, first + static_cast<std::size_t>(lane), sum);
    }
  }

  /// Adds one leaf's part of one sum, after `before` leaves of the run.
  KOKKOS_FORCEINLINE_FUNCTION void add_one(int run, int before, std::size_t sum, Scalar number) const {
    int level = 0;
    for (; (before >> level & 1) != 0; ++level) number = sums(place(run, level, sum)) + number;
    sums(place(run, level, sum)) = number;
  }

  /// Adds `count` neighbouring sums over an aligned subtree of 2^level leaves, after `before` leaves of the run.
  /// `numbers`: the sums; overwritten. For hosts.
  KOKKOS_FORCEINLINE_FUNCTION void add_subtree(int run, int before, int level, std::size_t first, int count,
                                               Scalar* numbers) const {
    for (; (before >> level & 1) != 0; ++level) {
      auto const* const lower = elements_of(sums, place(run, level, first), static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) numbers[i] = lower[i] + numbers[i];
    }
    auto* const to = elements_of(sums, place(run, level, first), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) to[i] = numbers[i];
  }

  /// Copies `count` numbers, at most Most, in pieces of constant length, which compilers turn into vector moves.
  template <int Most>
  KOKKOS_FORCEINLINE_FUNCTION static void copy_some(Scalar* to, Scalar const* from, int count) {
    if (count == Most) {
      memcpy(to, from, Most * sizeof(Scalar));
    } else {
      copy_pieces<Most / 2>(to, from, count);
    }
  }
  template <int Length>
  KOKKOS_FORCEINLINE_FUNCTION static void copy_pieces(Scalar* to, Scalar const* from, int count) {
    int const step = count & Length;
    if (step != 0) memcpy(to, from, Length * sizeof(Scalar));
    if constexpr (Length > 1) copy_pieces<Length / 2>(to + step, from + step, count);
  }

  /// True if all leaves form one complete run: the sum is then that of its top level.
  KOKKOS_FORCEINLINE_FUNCTION bool has_one_subtree() const { return num_leaves == leaves_per_run; }
  KOKKOS_FORCEINLINE_FUNCTION Scalar only_total(std::size_t sum) const {
    return sums(place(0, num_levels - 1, sum)) + Scalar(0);
  }

  /// total() for `Count` neighbouring sums, by loops that compilers vectorize. For hosts.
  template <int Count>
  KOKKOS_FORCEINLINE_FUNCTION void totals(std::size_t sum, Scalar* result) const {
    Scalar runs[32][Count]; // level k: a subtree of 2^k runs
    int const whole = num_leaves / leaves_per_run;
    int const left = num_leaves % leaves_per_run;
    int top = 0;
    while (1 << top < leaves_per_run) ++top;
    auto const part = [&](int run, int level) { return elements_of(sums, place(run, level, sum), Count); };
    for (int run = 0; run < whole; ++run) {
      auto const* const own = part(run, top);
      Scalar value[Count];
      for (int i = 0; i < Count; ++i) value[i] = own[i];
      int level = 0;
      for (; (run >> level & 1) != 0; ++level)
        for (int i = 0; i < Count; ++i) value[i] = runs[level][i] + value[i];
      for (int i = 0; i < Count; ++i) runs[level][i] = value[i];
    }
    bool has_value = false; // added up from the last leaves, the lowest part of the tree, to the first
    auto const add = [&](Scalar const* numbers) {
      for (int i = 0; i < Count; ++i) result[i] = has_value ? numbers[i] + result[i] : numbers[i];
      has_value = true;
    };
    for (int level = 0; level < top; ++level)
      if ((left >> level & 1) != 0) add(part(whole, level));
    for (int level = 0; whole >> level != 0; ++level)
      if ((whole >> level & 1) != 0) add(runs[level]);
    for (int i = 0; i < Count; ++i) result[i] += Scalar(0);
  }

  /// The sum over all leaves, never -0.
  KOKKOS_FORCEINLINE_FUNCTION Scalar total(std::size_t sum) const {
    Scalar runs[32]; // level k: a subtree of 2^k runs
    int const whole = num_leaves / leaves_per_run;
    int const left = num_leaves % leaves_per_run;
    int top = 0;
    while (1 << top < leaves_per_run) ++top;
    int run = 0;
    for (; run + 8 <= whole; run += 8) { // eight loads are in flight together
      Scalar of[8];
      VARVE_UNROLL
      for (int i = 0; i < 8; ++i) of[i] = sums(place(run + i, top, sum));
      Scalar value = ((of[0] + of[1]) + (of[2] + of[3])) + ((of[4] + of[5]) + (of[6] + of[7]));
      int level = 3;
      for (; (run >> level & 1) != 0; ++level) value = runs[level] + value;
      runs[level] = value;
    }
    for (; run < whole; ++run) {
      Scalar value = sums(place(run, top, sum));
      int level = 0;
      for (; (run >> level & 1) != 0; ++level) value = runs[level] + value;
      runs[level] = value;
    }
    Scalar value = Scalar(0); // added up from the last leaves, the lowest part of the tree, to the first
    bool has_value = false;
    for (int level = 0; level < top; ++level) {
      if ((left >> level & 1) == 0) continue;
      Scalar const part = sums(place(whole, level, sum));
      value = has_value ? part + value : part;
      has_value = true;
    }
    for (int level = 0; whole >> level != 0; ++level) {
      if ((whole >> level & 1) == 0) continue;
      value = has_value ? runs[level] + value : runs[level];
      has_value = true;
    }
    return value + Scalar(0);
  }
};

} // namespace varve
