#pragma once

#include "core/execution.hpp"
#include "formats/trained_edges.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Lists the free places (those without an edge) of a block of outputs whose absolute gradients exceed a limit, in
/// ascending order. A gradient that is no number counts as 0. The body of a parallel_scan over the places of the block,
/// numbered (output - first_output) * num_inputs + input. Reads each gradient twice.
template <class ExecutionSpace, class Scalar>
struct ListFreePlaces {
  EdgeRows<ExecutionSpace> edges;                     ///< the layer's edges, by output
  ConstDeviceArray<ExecutionSpace, Scalar> gradients; ///< by place of the block
  DeviceArray<ExecutionSpace, std::uint32_t> places;  ///< result: places of the block
  DeviceArray<ExecutionSpace, Scalar> magnitudes;     ///< result: their absolute gradients
  Scalar limit;                                       ///< below 0: all free places are listed
  int num_inputs;
  int first_output;

  KOKKOS_FUNCTION void operator()(std::size_t place, std::size_t& num_listed, bool is_final) const {
    Scalar const size = Kokkos::abs(gradients(place));
    Scalar const magnitude = size > Scalar(0) ? size : Scalar(0);
    if (!(magnitude > limit) || has_edge(place)) return;
    if (is_final) {
      places(num_listed) = static_cast<std::uint32_t>(place);
      magnitudes(num_listed) = magnitude;
    }
    ++num_listed;
  }

private:
  /// Binary search among the edges of the output, whose inputs ascend.
  KOKKOS_FORCEINLINE_FUNCTION bool has_edge(std::size_t place) const {
    auto const inputs = static_cast<std::size_t>(num_inputs);
    auto const output = static_cast<std::size_t>(first_output) + place / inputs;
    auto const input = static_cast<NeuronIndex>(place % inputs);
    std::uint32_t low = edges.row_pointers(output);
    std::uint32_t const end = edges.row_pointers(output + 1);
    std::uint32_t high = end;
    while (low < high) {
      std::uint32_t const middle = low + (high - low) / 2;
      if (edges.neurons(middle) < input) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < end && edges.neurons(low) == input;
  }
};

/// Launches ListFreePlaces for a block of num_places places, waits for it, and returns the number of listed places.
template <class ExecutionSpace, class Scalar>
std::size_t list_free_places(ExecutionSpace const& space, ListFreePlaces<ExecutionSpace, Scalar> const& kernel,
                             std::size_t num_places) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  std::size_t num_listed = 0;
  if (num_places == 0) return num_listed;
  Kokkos::parallel_scan("varve::list_free_places", Policy(space, 0, num_places), kernel, num_listed);
  space.fence("varve: free places are listed");
  return num_listed;
}

} // namespace varve
