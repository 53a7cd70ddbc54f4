#pragma once

#include "formats/device_layer.hpp"

#include <algorithm>
#include <vector>

namespace varve {

/// Compressed sparse rows by output, without padding: for layers whose degrees vary so much that sliced ELL would waste
/// memory. The edges of an output keep the order of the matrix.
template <class ExecutionSpace, class Scalar_, class Index_>
struct Csr {
  using Scalar = Scalar_;
  using Index = Index_;
  static constexpr int block_outputs = 1;
  static constexpr bool may_have_curve = true; ///< on every device (DeviceTraits::has_curves_in_rows_only)

  /// The layer as a kernel argument: trivially copyable, valid during the lifetime of the format.
  struct Edges {
    static constexpr int edges_at_a_time = 1;

    LayerParameters<Scalar> parameters;
    ArrayView<EdgeOffset const> row_pointers;
    ArrayView<Index const> indices;
    ArrayView<Scalar const> weights;

    KOKKOS_FORCEINLINE_FUNCTION int num_blocks() const { return parameters.num_outputs; }

    /// Calls visit(inputs, weights_of) for every edge of an output, in order: *inputs is its input, *weights_of(0) its
    /// weight.
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_edges(int output, Visit const& visit) const {
      EdgeOffset const last = row_pointers(output + 1);
      for (EdgeOffset edge = row_pointers(output); edge < last; ++edge) {
        visit(&indices(edge), [&](int) { return &weights(edge); });
      }
    }
  };

  Edges edges() const { return {frame.parameters(), row_pointers, indices, weights}; }

  static auto arrays_of(auto& format) {
    return std::tie(format.frame.bias, format.frame.neurons, format.row_pointers, format.indices, format.weights);
  }

  int num_outputs() const { return frame.num_outputs; }

  Csr() = default;

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
  ConstDeviceArray<ExecutionSpace, Index> indices;
  ConstDeviceArray<ExecutionSpace, Scalar> weights;

  /// Builds the format from a valid layer. Throws InputError if an input exceeds Index, or a number of neurons 31 bits.
  explicit Csr(Layer const& layer, LayerArrays<ExecutionSpace> const& arrays = {}) {
    SparseMatrix const& matrix = layer.weights;
    std::vector<Index> indices(matrix.num_entries());
    std::vector<Scalar> weights(matrix.num_entries());
    for (EdgeOffset edge = 0; edge < matrix.num_entries(); ++edge) {
      indices[edge] = narrowed<Index>(matrix.column_indices[edge], "input of an edge in CSR");
      weights[edge] = static_cast<Scalar>(matrix.value(edge));
    }
    frame = LayerFrame<ExecutionSpace, Scalar>(layer, {}, arrays);
    row_pointers = arrays.put("varve::row_pointers", matrix.row_pointers);
    this->indices = arrays.put("varve::indices", indices);
    this->weights = arrays.put("varve::weights", weights);
  }
};

/// Compressed sparse columns: the edges of a layer by input. For a first layer on very wide samples with few entries.
/// The edges of each output must ascend by input (is_ascending()).
template <class ExecutionSpace, class Scalar_>
struct Csc {
  using Scalar = Scalar_;

  /// The layer as a kernel argument: trivially copyable, valid during the lifetime of the format.
  struct Edges {
    LayerParameters<Scalar> parameters;
    ArrayView<EdgeOffset const> column_pointers; ///< first edge of each input, then the number of edges
    ArrayView<NeuronIndex const> outputs;        ///< [edge]; ascending and distinct within an input
    ArrayView<Scalar const> weights;             ///< [edge]
  };

  Csc() = default;
  /// Builds the format from a valid layer. Throws InputError if a number of neurons exceeds 31 bits.
  explicit Csc(Layer const& layer) {
    SparseMatrix const& matrix = layer.weights;
    auto const by_input = transposed(matrix);
    std::vector<Scalar> values(by_input.edges.size());
    std::ranges::transform(by_input.edges, values.begin(),
                           [&](EdgeOffset edge) { return static_cast<Scalar>(matrix.value(edge)); });
    LayerArrays<ExecutionSpace> const arrays;
    frame = LayerFrame<ExecutionSpace, Scalar>(layer, {}, arrays);
    column_pointers = arrays.put("varve::column_pointers", by_input.row_pointers);
    outputs = arrays.put("varve::outputs", by_input.outputs);
    weights = arrays.put("varve::weights", values);
  }

  Edges edges() const { return {frame.parameters(), column_pointers, outputs, weights}; }
  int num_outputs() const { return frame.num_outputs; }
  static auto arrays_of(auto& format) {
    return std::tie(format.frame.bias, format.frame.neurons, format.column_pointers, format.outputs, format.weights);
  }

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, EdgeOffset> column_pointers;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> outputs;
  ConstDeviceArray<ExecutionSpace, Scalar> weights;
};

} // namespace varve
