#pragma once

#include "core/execution.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// sums(i) += others(i): the sum of two neighbouring subtrees of leaves. Index: sum. Reads two numbers and writes one.
template <class ExecutionSpace, class Scalar>
struct MergeSubtrees {
  DeviceArray<ExecutionSpace, Scalar> sums;
  ConstDeviceArray<ExecutionSpace, Scalar> others;

  KOKKOS_FUNCTION void operator()(std::size_t i) const { sums(i) = sums(i) + others(i); }
};

/// Launches MergeSubtrees. Does not fence.
template <class ExecutionSpace, class Scalar>
void merge_subtrees(ExecutionSpace const& space, MergeSubtrees<ExecutionSpace, Scalar> const& kernel) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  if (kernel.sums.size() == 0) return;
  Kokkos::parallel_for("varve::merge_subtrees", Policy(space, 0, kernel.sums.size()), kernel);
}

/// Where the sums of a subtree are: an element of a table of addresses. (Kokkos takes a View of pointers for one of
/// more dimensions.)
template <class Scalar>
struct PlaceOfSums {
  Scalar const* first;
};

/// total(i) = the sum of sums(p)[i] over all subtrees p, added by the tree over leaves: the program `merges` is that of
/// network/subtrees.hpp and ends with a single sum. Subtrees' sums are arrays of their own, in the memory of any device
/// that this one can read; `total` may be the first of them. Index: a chunk of neighbouring sums (CPUs: 64, GPUs: one).
/// Reads each number once.
template <class ExecutionSpace, class Scalar>
struct AddSubtrees {
  static constexpr int chunk = kOnHost<ExecutionSpace> ? 64 : 1;
  static constexpr int most_waiting = 32; ///< sums on the stack: at most one for each bit of the number of leaves

  ConstDeviceArray<ExecutionSpace, PlaceOfSums<Scalar>> sums; ///< by subtree
  ConstDeviceArray<ExecutionSpace, int> merges;               ///< by subtree
  DeviceArray<ExecutionSpace, Scalar> total;

  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    Scalar waiting[most_waiting][chunk];
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

/// Launches AddSubtrees. Does not fence.
template <class ExecutionSpace, class Scalar>
void add_subtrees(ExecutionSpace const& space, AddSubtrees<ExecutionSpace, Scalar> const& kernel) {
  constexpr std::size_t chunk = AddSubtrees<ExecutionSpace, Scalar>::chunk;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  if (kernel.total.size() == 0) return;
  Kokkos::parallel_for("varve::add_subtrees", Policy(space, 0, (kernel.total.size() + chunk - 1) / chunk), kernel);
}

/// Takes numbers that another rank has computed: copies them to an array, if there is one, writes each to its place in
/// a copy of another order, if there is one (the weights by output, which the forward pass reads), and checks that it
/// is finite. Index: number.
template <class ExecutionSpace, class Number>
struct TakeNumbers {
  ConstDeviceArray<ExecutionSpace, Number> numbers;
  DeviceArray<ExecutionSpace, Number> in_order;           ///< empty: not wanted
  DeviceArray<ExecutionSpace, Number> copies;             ///< empty: not wanted
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places; ///< index of each number in `copies`
  DeviceArray<ExecutionSpace, int> bad;                   ///< one element: set to 1 if a number is not finite

  KOKKOS_FUNCTION void operator()(std::size_t i) const {
    Number const number = numbers(i);
    if (in_order.size() != 0) in_order(i) = number;
    if (copies.size() != 0) copies(places(i)) = number;
    if (!(number * Number(0) == Number(0))) Kokkos::atomic_store(&bad(0), 1);
  }
};

/// Launches TakeNumbers. Does not fence.
template <class ExecutionSpace, class Number>
void take_numbers(ExecutionSpace const& space, TakeNumbers<ExecutionSpace, Number> const& kernel) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  if (kernel.numbers.size() == 0) return;
  Kokkos::parallel_for("varve::take_numbers", Policy(space, 0, kernel.numbers.size()), kernel);
}

} // namespace varve
