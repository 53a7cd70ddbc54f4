#pragma once

#include "formats/device_layer.hpp"

namespace varve {

/// Compressed sparse rows by output, no padding: for layers whose degrees differ so much that sliced ELL would waste
/// room. Order of edges within an output: ascending input.
template <class ExecutionSpace, class Scalar_, class Index_>
struct Csr {
  using Scalar = Scalar_;
  using Index = Index_;

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
  ConstDeviceArray<ExecutionSpace, Index> indices;
  ConstDeviceArray<ExecutionSpace, Scalar> weights;

  /// Calls visit(input, weight) for each edge of an output, in order.
  template <class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_edge(int output, Visit const& visit) const {
    EdgeOffset const last = row_pointers(output + 1);
    for (EdgeOffset edge = row_pointers(output); edge < last; ++edge)
      visit(static_cast<int>(indices(edge)), weights(edge));
  }

  std::size_t bytes() const {
    return row_pointers.size() * sizeof(EdgeOffset) + indices.size() * sizeof(Index) + weights.size() * sizeof(Scalar) +
           frame.bias.size() * sizeof(double);
  }
};

template <class Format>
struct CsrBuilder;

template <class ExecutionSpace, class Scalar, class Index>
struct CsrBuilder<Csr<ExecutionSpace, Scalar, Index>> {
  using Format = Csr<ExecutionSpace, Scalar, Index>;

  static Format build(Layer const& layer) {
    SparseMatrix const& matrix = layer.weights;
    std::vector<Index> const indices(matrix.column_indices.begin(), matrix.column_indices.end());
    std::vector<Scalar> weights(matrix.num_entries());
    for (EdgeOffset edge = 0; edge < matrix.num_entries(); ++edge)
      weights[edge] = static_cast<Scalar>(matrix.value(edge));
    Format format;
    format.frame = LayerFrame<ExecutionSpace, Scalar>(layer);
    format.row_pointers = upload<ExecutionSpace>("varve::row_pointers", matrix.row_pointers);
    format.indices = upload<ExecutionSpace>("varve::indices", indices);
    format.weights = upload<ExecutionSpace>("varve::weights", weights);
    return format;
  }

  /// The weights back (as values of Scalar, one per entry).
  static SparseMatrix to_matrix(Format const& format) {
    SparseMatrix matrix;
    matrix.num_rows = static_cast<std::size_t>(format.frame.num_outputs);
    matrix.num_columns = static_cast<std::size_t>(format.frame.num_inputs);
    matrix.row_pointers = download(format.row_pointers);
    auto const indices = download(format.indices);
    auto const weights = download(format.weights);
    matrix.column_indices.assign(indices.begin(), indices.end());
    matrix.values.assign(weights.begin(), weights.end());
    return matrix;
  }
};

} // namespace varve
