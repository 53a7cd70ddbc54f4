#pragma once

#include "core/elementary.hpp"
#include "core/execution.hpp"
#include "network/optimizer.hpp"

#include <cstddef>

namespace varve {

/// One optimizer step of one number and its moments, from the sum of its gradients; network/optimizer.hpp has the
/// formulas. Each fma is called by name: if compilers chose, weights would differ between backends.
template <class Number>
KOKKOS_FORCEINLINE_FUNCTION void follow(OptimizerKind kind, UpdateFactors<Number> const& factors, Number sum,
                                        Number& number, Number& first, Number& second) {
  Number const gradient = multiply_add(factors.l2, number, sum * factors.inverse_batch);
  switch (kind) {
  case OptimizerKind::sgd:
    number = multiply_add(-factors.rate, gradient, number);
    break;
  case OptimizerKind::momentum:
    first = multiply_add(factors.momentum, first, gradient);
    number = multiply_add(-factors.rate, first, number);
    break;
  case OptimizerKind::nesterov:
    first = multiply_add(factors.momentum, first, gradient);
    number = multiply_add(-factors.rate, multiply_add(factors.momentum, first, gradient), number);
    break;
  case OptimizerKind::adam:
    first = multiply_add(factors.beta1, first, factors.rest1 * gradient);
    second = multiply_add(factors.beta2, second, factors.rest2 * (gradient * gradient));
    number =
        multiply_add(-factors.rate, first / (Kokkos::sqrt(second) / factors.root_correction + factors.epsilon), number);
    break;
  }
}

/// One optimizer step of all numbers. Index: a chunk of neighbouring numbers (CPUs: 16, as lanes of vectors; GPUs:
/// one). Also writes each number to its place in a copy of another order, if there is one: the weights by output, which
/// the forward pass reads. Reads and writes each number and its moments once.
template <class ExecutionSpace, class Number, class Sum>
struct UpdateStep {
  static constexpr int chunk = kOnHost<ExecutionSpace> ? 16 : 1;

  DeviceArray<ExecutionSpace, Number> numbers;
  DeviceArray<ExecutionSpace, Number> first, second;      ///< moments; empty where the optimizer has none
  ConstDeviceArray<ExecutionSpace, Sum> sums;             ///< sums of the gradients over the mini-batch
  DeviceArray<ExecutionSpace, Number> copies;             ///< the numbers in another order; empty: not wanted
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places; ///< index of each number in `copies`
  DeviceArray<ExecutionSpace, int> bad; ///< one element: set to 1 if a number is not finite; empty: no check
  UpdateFactors<Number> factors;
  OptimizerKind kind;

  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    std::size_t const begin = index * chunk;
    if (begin + chunk <= numbers.size()) {
      take<true>(begin, chunk);
    } else {
      take<false>(begin, static_cast<int>(numbers.size() - begin));
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void mark_bad(Number const (&number)[chunk]) const {
    Number zero = 0; // stays 0 if all numbers are finite, else becomes NaN
    for (int i = 0; i < chunk; ++i) zero += number[i] * Number(0);
    if (!(zero == Number(0))) Kokkos::atomic_store(&bad(0), 1);
  }

  template <bool IsWhole>
  KOKKOS_FORCEINLINE_FUNCTION void take(std::size_t begin, int count) const {
    Number number[chunk], one[chunk], two[chunk], sum[chunk];
    int const length = IsWhole ? chunk : count;
    for (int i = 0; i < chunk; ++i) number[i] = one[i] = two[i] = sum[i] = Number(0);
    for (int i = 0; i < length; ++i) {
      number[i] = numbers(begin + static_cast<std::size_t>(i));
      sum[i] = static_cast<Number>(sums(begin + static_cast<std::size_t>(i)));
    }
    if (first.size() != 0)
      for (int i = 0; i < length; ++i) one[i] = first(begin + static_cast<std::size_t>(i));
    if (second.size() != 0)
      for (int i = 0; i < length; ++i) two[i] = second(begin + static_cast<std::size_t>(i));
    for (int i = 0; i < chunk; ++i) follow(kind, factors, sum[i], number[i], one[i], two[i]);
    for (int i = 0; i < length; ++i) numbers(begin + static_cast<std::size_t>(i)) = number[i];
    if (bad.size() != 0) mark_bad(number);
    if (first.size() != 0)
      for (int i = 0; i < length; ++i) first(begin + static_cast<std::size_t>(i)) = one[i];
    if (second.size() != 0)
      for (int i = 0; i < length; ++i) second(begin + static_cast<std::size_t>(i)) = two[i];
    if (copies.size() != 0)
      for (int i = 0; i < length; ++i) copies(places(begin + static_cast<std::size_t>(i))) = number[i];
  }
};

/// Launches UpdateStep. Does not fence.
template <class ExecutionSpace, class Number, class Sum>
void update_step(ExecutionSpace const& space, UpdateStep<ExecutionSpace, Number, Sum> const& kernel) {
  constexpr std::size_t chunk = UpdateStep<ExecutionSpace, Number, Sum>::chunk;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  if (kernel.numbers.size() == 0) return;
  Kokkos::parallel_for("varve::update_step", Policy(space, 0, (kernel.numbers.size() + chunk - 1) / chunk), kernel);
}

} // namespace varve
