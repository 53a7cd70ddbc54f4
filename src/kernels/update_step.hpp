#pragma once

#include "core/elementary.hpp"
#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "network/optimizer.hpp"

#include <cstddef>

namespace varve {

/// by_output[output][input] = by_input[input][output] for the weights [first, last) of a dense matrix by input. Index:
/// a block of `height` inputs and `width` outputs. Copied one by one in training order, each weight would load and
/// store another cache line of a CPU. Reads and writes each weight once. Bound by bandwidth.
template <class ExecutionSpace, class Scalar>
struct TransposeWeights {
  static constexpr char const* label = "varve::transpose_weights";
  static constexpr std::size_t width = 16;
  static constexpr std::size_t height = 64; ///< adjacent numbers that are written to one row, mostly in one page

  ConstDeviceArray<ExecutionSpace, Scalar> by_input;
  DeviceArray<ExecutionSpace, Scalar> by_output;
  std::size_t num_inputs, num_outputs;
  std::size_t first, last;

  std::size_t num_indices() const {
    if (first >= last) return 0;
    std::size_t const inputs = (last + num_outputs - 1) / num_outputs - first / num_outputs;
    return (inputs + height - 1) / height * ((num_outputs + width - 1) / width);
  }

  KOKKOS_FUNCTION void operator()(std::size_t block) const {
    std::size_t const blocks_per_row = (num_outputs + width - 1) / width;
    std::size_t const output = block % blocks_per_row * width;
    std::size_t const input = first / num_outputs + block / blocks_per_row * height;
    for (std::size_t row = input; row < input + height && row < num_inputs; row += width) turn(row, output);
  }

private:
  /// Transposes the square of `width` inputs and outputs that begins here.
  KOKKOS_FORCEINLINE_FUNCTION void turn(std::size_t input, std::size_t output) const {
    std::size_t const begin = input * num_outputs + output;
    std::size_t const end = begin + (width - 1) * num_outputs + width;
    if (input + width > num_inputs || output + width > num_outputs || begin < first || end > last) {
      transpose_at_border(input, output);
      return;
    }
    Scalar square[width][width];
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j < width; ++j) square[i][j] = by_input(begin + i * num_outputs + j);
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t i = 0; i < width; ++i) by_output((output + j) * num_inputs + input + i) = square[i][j];
  }

  KOKKOS_FORCEINLINE_FUNCTION void transpose_at_border(std::size_t input, std::size_t output) const {
    for (std::size_t i = input; i < input + width && i < num_inputs; ++i) {
      for (std::size_t j = output; j < output + width && j < num_outputs; ++j) {
        std::size_t const weight = i * num_outputs + j;
        if (weight >= first && weight < last) by_output(j * num_inputs + i) = by_input(weight);
      }
    }
  }
};

/// One optimizer step of one number and its moments, from the sum of its gradients; network/optimizer.hpp has the
/// formulas. Each fma is explicit: if compilers contracted, weights would differ between backends.
template <OptimizerKind Kind, class Number>
KOKKOS_FORCEINLINE_FUNCTION void follow(UpdateFactors<Number> const& factors, Number sum, Number& number, Number& first,
                                        Number& second) {
  Number const gradient = multiply_add(factors.l2, number, sum * factors.inverse_batch);
  if constexpr (Kind == OptimizerKind::sgd) {
    number = multiply_add(-factors.rate, gradient, number);
  } else if constexpr (Kind == OptimizerKind::momentum) {
    first = multiply_add(factors.momentum, first, gradient);
    number = multiply_add(-factors.rate, first, number);
  } else if constexpr (Kind == OptimizerKind::nesterov) {
    first = multiply_add(factors.momentum, first, gradient);
    number = multiply_add(-factors.rate, multiply_add(factors.momentum, first, gradient), number);
  } else {
    if constexpr (Kind == OptimizerKind::adamw) number = multiply_add(-factors.decay, number, number);
    first = multiply_add(factors.beta1, first, factors.rest1 * gradient);
    second = multiply_add(factors.beta2, second, factors.rest2 * (gradient * gradient));
    number =
        multiply_add(-factors.rate, first / (Kokkos::sqrt(second) / factors.root_correction + factors.epsilon), number);
  }
}

/// One optimizer step of all numbers. Index: a chunk of neighbouring numbers (CPUs: 16, as lanes of vectors; GPUs:
/// one). Also scatters each number to a copy in another order, if there is one: the weights by output, which the
/// forward pass reads. Reads and writes each number and its moments once.
template <class ExecutionSpace, class Number, class Sum>
struct UpdateStep {
  static constexpr char const* label = "varve::update_step";
  static constexpr int chunk = kOnHost<ExecutionSpace> ? 16 : 1;

  DeviceArray<ExecutionSpace, Number> numbers;
  DeviceArray<ExecutionSpace, Number> first, second;      ///< moments; empty where the optimizer has none
  ConstDeviceArray<ExecutionSpace, Sum> sums;             ///< sums of the gradients over the mini-batch
  DeviceArray<ExecutionSpace, Number> copies;             ///< the numbers in another order; empty: not wanted
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places; ///< index of each number in `copies`
  DeviceArray<ExecutionSpace, int> bad; ///< one element: set to 1 if a number is not finite; empty: no check
  UpdateFactors<Number> factors;
  OptimizerKind kind;

  std::size_t num_indices() const { return (numbers.size() + chunk - 1) / chunk; }
  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    std::size_t const begin = index * chunk;
    if (begin + chunk <= numbers.size()) {
      take<true>(begin, chunk);
    } else {
      take<false>(begin, static_cast<int>(numbers.size() - begin));
    }
  }

private:
  /// `chunk` neighbouring numbers, with their moments and sums.
  struct Chunk {
    Number number[chunk], first[chunk], second[chunk], sum[chunk];

    /// One loop per optimizer, which compilers vectorize.
    template <OptimizerKind Kind>
    KOKKOS_FORCEINLINE_FUNCTION void follow_all(UpdateFactors<Number> const& factors) {
      for (int i = 0; i < chunk; ++i) follow<Kind>(factors, sum[i], number[i], first[i], second[i]);
    }
    KOKKOS_FORCEINLINE_FUNCTION void follow_all(OptimizerKind kind, UpdateFactors<Number> const& factors) {
      switch (kind) {
      case OptimizerKind::sgd:
        follow_all<OptimizerKind::sgd>(factors);
        break;
      case OptimizerKind::momentum:
        follow_all<OptimizerKind::momentum>(factors);
        break;
      case OptimizerKind::nesterov:
        follow_all<OptimizerKind::nesterov>(factors);
        break;
      case OptimizerKind::adam:
        follow_all<OptimizerKind::adam>(factors);
        break;
      case OptimizerKind::adamw:
        follow_all<OptimizerKind::adamw>(factors);
        break;
      }
    }
    KOKKOS_FORCEINLINE_FUNCTION bool is_finite() const {
      int num_bad = 0; // a finite number times 0 is 0, any other is NaN
      for (int i = 0; i < chunk; ++i) num_bad += number[i] * Number(0) == Number(0) ? 0 : 1;
      return num_bad == 0;
    }
  };

  static constexpr std::size_t copies_ahead = 64; ///< numbers whose copies are prefetched, from the L3 or from memory

  /// Prefetches the copies of a chunk, which lie anywhere, to be written.
  KOKKOS_FORCEINLINE_FUNCTION void fetch_copies(std::size_t begin) const {
    if (copies.size() == 0) return;
    for (std::size_t i = begin; i < begin + chunk && i < numbers.size(); ++i)
      fetch<FetchTo::l1_for_stores>(copies.data() + places(i), 1);
  }

  template <bool IsWhole>
  KOKKOS_FORCEINLINE_FUNCTION void take(std::size_t begin, int count) const {
    Chunk all;
    int const length = IsWhole ? chunk : count;
    if constexpr (!IsWhole)
      for (int i = 0; i < chunk; ++i) all.number[i] = all.first[i] = all.second[i] = all.sum[i] = Number(0);
    if constexpr (kOnHost<ExecutionSpace>) fetch_copies(begin + copies_ahead);
    for (int i = 0; i < length; ++i) {
      all.number[i] = numbers(begin + static_cast<std::size_t>(i));
      all.sum[i] = static_cast<Number>(sums(begin + static_cast<std::size_t>(i)));
    }
    if (first.size() != 0)
      for (int i = 0; i < length; ++i) all.first[i] = first(begin + static_cast<std::size_t>(i));
    if (second.size() != 0)
      for (int i = 0; i < length; ++i) all.second[i] = second(begin + static_cast<std::size_t>(i));
    all.follow_all(kind, factors);
    for (int i = 0; i < length; ++i) numbers(begin + static_cast<std::size_t>(i)) = all.number[i];
    if (bad.size() != 0 && !all.is_finite()) Kokkos::atomic_store(&bad(0), 1);
    if (first.size() != 0)
      for (int i = 0; i < length; ++i) first(begin + static_cast<std::size_t>(i)) = all.first[i];
    if (second.size() != 0)
      for (int i = 0; i < length; ++i) second(begin + static_cast<std::size_t>(i)) = all.second[i];
    if (copies.size() != 0)
      for (int i = 0; i < length; ++i) copies(places(begin + static_cast<std::size_t>(i))) = all.number[i];
  }
};

} // namespace varve
