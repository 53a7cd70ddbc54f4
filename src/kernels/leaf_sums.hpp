#pragma once

#include "core/execution.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Gradients of biases: the sum of each neuron's errors over the samples, in the order of network/leaf.hpp, into
/// `levels`. A group is kLeafChains neurons. league: runs of leaves x blocks of groups; team threads: groups; vector
/// lanes: packs of samples. Reads each error once, for one addition.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct NeuronSums {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Member = typename Policy::member_type;
  using Sums = LeafSums<Tile>;

  ConstTrainingPanel<ExecutionSpace, Scalar, Links> errors;
  TreeLevels<ExecutionSpace, Scalar> levels;
  int num_neurons;
  int num_blocks = 1;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const run = team.league_rank() / num_blocks;
    int const block = team.league_rank() % num_blocks;
    int const num_groups = (num_neurons + Sums::count - 1) / Sums::count;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
      for (int leaf = levels.first_of(run); leaf < levels.end_of(run); ++leaf)
        for (int group = block * team.team_size() + team.team_rank(); group < num_groups;
             group += num_blocks * team.team_size())
          add_group(errors, levels, num_neurons, run, leaf, group * Sums::count, lane);
    });
  }

  /// Adds the errors of a group of neurons in a leaf, from `first` on.
  KOKKOS_FORCEINLINE_FUNCTION static void add_group(ConstTrainingPanel<ExecutionSpace, Scalar, Links> const& errors,
                                                    TreeLevels<ExecutionSpace, Scalar> const& levels, int num_neurons,
                                                    int run, int leaf, int first, int lane) {
    int const count = num_neurons - first < Sums::count ? num_neurons - first : Sums::count;
    Sums sums;
    VARVE_UNROLL
    for (int i = 0; i < Sums::count; ++i) {
      if (i < count) {
        LanePacks<Tile> error;
        error.load(errors(line_of(leaf, num_neurons, first + i)), lane);
        sums.set_sum(i, error);
      } else {
        sums.clear_sum(i);
      }
    }
    levels.template add<Sums>(run, leaf - levels.first_of(run), static_cast<std::size_t>(first), count, lane,
                              sums.total(lane));
  }
};

/// Launches NeuronSums. Does not fence.
template <class ExecutionSpace, class Scalar, int Links>
void neuron_sums(ExecutionSpace const& space, NeuronSums<ExecutionSpace, Scalar, Links> kernel) {
  using Kernel = NeuronSums<ExecutionSpace, Scalar, Links>;
  using Tune = TrainingTuning<ExecutionSpace>;
  if (kernel.levels.num_leaves == 0 || kernel.num_neurons == 0) return;
  constexpr int group = Kernel::Sums::count;
  kernel.num_blocks = Tune::num_blocks(num_processors(space), (kernel.num_neurons + group - 1) / group);
  typename Kernel::Policy const policy(space, kernel.levels.num_runs() * kernel.num_blocks, Tune::team_size,
                                       Kernel::Tile::num_lanes);
  launch_teams("varve::neuron_sums", policy, kernel);
}

/// totals(first + i) = the sum over all leaves of sum i, never -0; the same for a second set of sums, if there is one.
/// Index: a chunk of neighbouring sums (CPUs: 64, GPUs: one); chunks of the second set follow those of the first. Bound
/// by memory bandwidth.
template <class ExecutionSpace, class Scalar>
struct AddLevels {
  static constexpr char const* label = "varve::add_levels";
  static constexpr std::size_t chunk = kOnHost<ExecutionSpace> ? 64 : 1;
  using Levels = TreeLevels<ExecutionSpace, Scalar>;

  Levels levels;
  DeviceArray<ExecutionSpace, Scalar> totals;
  std::size_t first;
  Levels others{{}, 0, 0, 1, 0}; ///< the second set
  std::size_t first_other = 0;   ///< index of its first total

  static KOKKOS_FORCEINLINE_FUNCTION std::size_t num_chunks(Levels const& of) {
    return (of.num_sums + chunk - 1) / chunk;
  }
  std::size_t num_indices() const { return levels.num_leaves > 0 ? num_chunks(levels) + num_chunks(others) : 0; }

  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    std::size_t const before = num_chunks(levels);
    if (index < before) {
      add(levels, index * chunk, first);
    } else {
      add(others, (index - before) * chunk, first_other);
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void add(Levels const& of, std::size_t begin, std::size_t to) const {
    std::size_t const end = begin + chunk < of.num_sums ? begin + chunk : of.num_sums;
    if constexpr (kOnHost<ExecutionSpace>) {
      if (end - begin == chunk) {
        of.template totals<static_cast<int>(chunk)>(begin, elements_of(totals, to + begin, chunk));
        return;
      }
    }
    for (std::size_t i = begin; i < end; ++i) totals(to + i) = of.has_one_subtree() ? of.only_total(i) : of.total(i);
  }
};

/// sums(i) += others(i): the sum of two neighbouring subtrees of leaves. Index: sum. Reads two numbers and writes one.
template <class ExecutionSpace, class Scalar>
struct MergeSubtrees {
  static constexpr char const* label = "varve::merge_subtrees";

  DeviceArray<ExecutionSpace, Scalar> sums;
  ConstDeviceArray<ExecutionSpace, Scalar> others;

  std::size_t num_indices() const { return sums.size(); }
  KOKKOS_FUNCTION void operator()(std::size_t i) const { sums(i) = sums(i) + others(i); }
};

/// Address of the sums of a subtree, an element of a table. (Kokkos would interpret a View of pointers as a View of
/// higher rank.)
template <class Scalar>
struct SumsAddress {
  Scalar const* first;
};

/// total(i) = the sum of sums(p)[i] over all subtrees p, added by the tree over leaves: `merges` is the program of
/// merges_of() (network/leaf.hpp) and ends with a single sum. The sums of each subtree are a separate array, in the
/// memory of any device that this one can read; `total` may be the first of them. Index: a chunk of neighbouring sums
/// (CPUs: 64, GPUs: one). Reads each number once.
template <class ExecutionSpace, class Scalar>
struct AddSubtrees {
  static constexpr char const* label = "varve::add_subtrees";
  static constexpr int chunk = kOnHost<ExecutionSpace> ? 64 : 1;
  static constexpr int max_waiting = 32; ///< limit of sums on the stack: one for each bit of the number of leaves

  ConstDeviceArray<ExecutionSpace, SumsAddress<Scalar>> sums; ///< [subtree]
  ConstDeviceArray<ExecutionSpace, int> merges;               ///< [subtree]
  DeviceArray<ExecutionSpace, Scalar> total;

  std::size_t num_indices() const { return (total.size() + chunk - 1) / chunk; }
  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    Scalar waiting[max_waiting][chunk];
    std::size_t const begin = index * chunk;
    int const count = begin + chunk < total.size() ? chunk : static_cast<int>(total.size() - begin);
    int top = 0;
    for (std::size_t subtree = 0; subtree < sums.size(); ++subtree, ++top) {
      Scalar const* const from = sums(subtree).first + begin;
      for (int i = 0; i < count; ++i) waiting[top][i] = from[i];
      for (int merge = 0; merge < merges(subtree); ++merge) {
        --top;
        for (int i = 0; i < count; ++i) waiting[top][i] = waiting[top][i] + waiting[top + 1][i];
      }
    }
    for (int i = 0; i < count; ++i) total(begin + static_cast<std::size_t>(i)) = waiting[0][i];
  }
};

/// Stores numbers that another rank has computed: copies them to an array (optional), scatters them to a copy in
/// another order (optional: the weights by output, which the forward pass reads), and checks that they are finite.
/// Index: number.
template <class ExecutionSpace, class Number>
struct StoreReceived {
  static constexpr char const* label = "varve::store_received";

  ConstDeviceArray<ExecutionSpace, Number> numbers;
  DeviceArray<ExecutionSpace, Number> in_order;           ///< empty: not wanted
  DeviceArray<ExecutionSpace, Number> copies;             ///< empty: not wanted
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places; ///< index of each number in `copies`
  DeviceArray<ExecutionSpace, int> bad;                   ///< one element: set to 1 if a number is not finite

  std::size_t num_indices() const { return numbers.size(); }
  KOKKOS_FUNCTION void operator()(std::size_t i) const {
    Number const number = numbers(i);
    if (in_order.size() != 0) in_order(i) = number;
    if (copies.size() != 0) copies(places(i)) = number;
    if (!(number * Number(0) == Number(0))) Kokkos::atomic_store(&bad(0), 1);
  }
};

/// totals(first + i) = the sum over all leaves at place places(i), never -0: picks the gradients of edges from the
/// gradients of all places. Index: a chunk of neighbouring edges (CPUs: 64, GPUs: one). Bound by memory bandwidth.
template <class ExecutionSpace, class Scalar>
struct PickLevels {
  static constexpr char const* label = "varve::pick_levels";
  static constexpr std::size_t chunk = kOnHost<ExecutionSpace> ? 64 : 1;

  TreeLevels<ExecutionSpace, Scalar> levels;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places;
  DeviceArray<ExecutionSpace, Scalar> totals;
  std::size_t first;

  std::size_t num_indices() const { return levels.num_leaves > 0 ? (places.size() + chunk - 1) / chunk : 0; }
  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    std::size_t const begin = index * chunk;
    std::size_t const end = begin + chunk < places.size() ? begin + chunk : places.size();
    if (levels.has_one_subtree()) { // a separate loop, which compilers vectorize
      for (std::size_t i = begin; i < end; ++i) totals(first + i) = levels.only_total(places(i));
    } else {
      for (std::size_t i = begin; i < end; ++i) totals(first + i) = levels.total(places(i));
    }
  }
};

} // namespace varve
