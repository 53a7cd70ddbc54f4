#pragma once

#include "formats/device_layer.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// The pattern of one layer in compressed sparse rows, for the kernels of training. Weights are stored elsewhere,
/// because they change.
template <class ExecutionSpace>
struct EdgeRows {
  ConstDeviceArray<ExecutionSpace, std::uint32_t> row_pointers; ///< first edge of each row, then the number of edges
  ConstDeviceArray<ExecutionSpace, NeuronIndex> neurons;        ///< the neuron at the other end of each edge
  int num_rows = 0;

  EdgeRows() = default;
  EdgeRows(std::string const& label, std::vector<EdgeOffset> const& pointers, std::vector<NeuronIndex> const& ends)
      : neurons(upload<ExecutionSpace>(label + "_neurons", ends)),
        num_rows(narrowed<int>(pointers.size() - 1, "neurons of a layer")) {
    std::vector<std::uint32_t> narrow;
    narrow.reserve(pointers.size());
    for (auto const pointer : pointers)
      narrow.push_back(narrowed<std::uint32_t>(pointer, "edges of a layer that is trained"));
    row_pointers = upload<ExecutionSpace>(label + "_rows", narrow);
  }

  std::size_t bytes() const {
    return row_pointers.size() * sizeof(std::uint32_t) + neurons.size() * sizeof(NeuronIndex);
  }
};

/// The first row of part `part` of num_parts parts with about equal numbers of edges and rows together (a binary
/// search).
template <class ExecutionSpace>
KOKKOS_FORCEINLINE_FUNCTION int row_of_share(EdgeRows<ExecutionSpace> const& edges, int part, int num_parts) {
  std::uint64_t const all = edges.row_pointers(edges.num_rows) + static_cast<std::uint64_t>(edges.num_rows);
  std::uint64_t const share = all * static_cast<std::uint64_t>(part) / static_cast<std::uint64_t>(num_parts);
  int low = 0;
  int high = edges.num_rows;
  while (low < high) {
    int const middle = (low + high) / 2;
    if (edges.row_pointers(middle) + static_cast<std::uint64_t>(middle) < share) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The pattern of a layer in training: by output for the forward pass, by input for the backward pass and the gradient.
/// The training order of edges and weights is by input; `places` maps it to the order by output.
template <class ExecutionSpace>
struct TrainedEdges {
  EdgeRows<ExecutionSpace> by_output;
  EdgeRows<ExecutionSpace> by_input;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> places; ///< edge in training order -> edge in the order by output

  TrainedEdges() = default;
  /// Uploads the pattern of a valid layer. Throws InputError if it has more edges than 32 bits can number.
  explicit TrainedEdges(SparseMatrix const& matrix) : TrainedEdges(matrix, transposed(matrix)) {}
  TrainedEdges(SparseMatrix const& matrix, TransposedEdges const& inputs)
      : by_output("varve::by_output", matrix.row_pointers, matrix.column_indices),
        by_input("varve::by_input", inputs.row_pointers, inputs.outputs) {
    std::vector<std::uint32_t> narrow(inputs.edges.begin(), inputs.edges.end()); // the row pointers above fit 32 bits
    places = upload<ExecutionSpace>("varve::places", narrow);
  }

  std::size_t num_edges() const { return places.size(); }
  std::size_t bytes() const { return by_output.bytes() + by_input.bytes() + places.size() * sizeof(std::uint32_t); }
};

} // namespace varve
