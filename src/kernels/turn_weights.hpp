#pragma once

#include "core/execution.hpp"

#include <cstddef>

namespace varve {

/// by_output[output][input] = by_input[input][output] for the weights [first, last) of a dense matrix by input. Index:
/// a block of `height` inputs and `width` outputs. Copied one by one in training order, each weight would go to another
/// line of memory, which a CPU loads and stores for it alone. Reads and writes each weight once. Bound by bandwidth.
template <class ExecutionSpace, class Scalar>
struct TurnWeights {
  static constexpr std::size_t width = 16;
  static constexpr std::size_t height = 64; ///< neighbouring numbers that are written to one row, mostly one page

  ConstDeviceArray<ExecutionSpace, Scalar> by_input;
  DeviceArray<ExecutionSpace, Scalar> by_output;
  std::size_t num_inputs, num_outputs;
  std::size_t first, last;

  std::size_t first_input() const { return first / num_outputs; }
  std::size_t num_blocks() const {
    std::size_t const inputs = (last + num_outputs - 1) / num_outputs - first_input();
    return (inputs + height - 1) / height * ((num_outputs + width - 1) / width);
  }

  KOKKOS_FUNCTION void operator()(std::size_t block) const {
    std::size_t const blocks_per_row = (num_outputs + width - 1) / width;
    std::size_t const output = block % blocks_per_row * width;
    std::size_t const input = first / num_outputs + block / blocks_per_row * height;
    for (std::size_t row = input; row < input + height && row < num_inputs; row += width) turn(row, output);
  }

private:
  /// The square of `width` inputs and outputs that begins here.
  KOKKOS_FORCEINLINE_FUNCTION void turn(std::size_t input, std::size_t output) const {
    std::size_t const begin = input * num_outputs + output;
    std::size_t const end = begin + (width - 1) * num_outputs + width;
    if (input + width > num_inputs || output + width > num_outputs || begin < first || end > last) {
      turn_at_border(input, output);
      return;
    }
    Scalar square[width][width];
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j < width; ++j) square[i][j] = by_input(begin + i * num_outputs + j);
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t i = 0; i < width; ++i) by_output((output + j) * num_inputs + input + i) = square[i][j];
  }

  KOKKOS_FORCEINLINE_FUNCTION void turn_at_border(std::size_t input, std::size_t output) const {
    for (std::size_t i = input; i < input + width && i < num_inputs; ++i) {
      for (std::size_t j = output; j < output + width && j < num_outputs; ++j) {
        std::size_t const weight = i * num_outputs + j;
        if (weight >= first && weight < last) by_output(j * num_inputs + i) = by_input(weight);
      }
    }
  }
};

/// Launches TurnWeights. Does not fence.
template <class ExecutionSpace, class Scalar>
void turn_weights(ExecutionSpace const& space, TurnWeights<ExecutionSpace, Scalar> const& kernel) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  if (kernel.first == kernel.last) return;
  Kokkos::parallel_for("varve::turn_weights", Policy(space, 0, kernel.num_blocks()), kernel);
}

} // namespace varve
