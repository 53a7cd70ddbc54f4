#pragma once

#include "formats/device_layer.hpp"

#include <algorithm>
#include <vector>

namespace varve {

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
    ArraysOnDevice<ExecutionSpace> arrays;
    frame = LayerFrame<ExecutionSpace, Scalar>(layer, {}, arrays);
    column_pointers = arrays.put("varve::column_pointers", by_input.row_pointers);
    outputs = arrays.put("varve::outputs", by_input.outputs);
    weights = arrays.put("varve::weights", values);
  }

  Edges edges() const { return {frame.parameters(), column_pointers, outputs, weights}; }
  int num_outputs() const { return frame.num_outputs; }
  std::size_t bytes() const {
    return column_pointers.size() * sizeof(EdgeOffset) + outputs.size() * sizeof(NeuronIndex) +
           weights.size() * sizeof(Scalar) + frame.bytes();
  }

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, EdgeOffset> column_pointers;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> outputs;
  ConstDeviceArray<ExecutionSpace, Scalar> weights;
};

} // namespace varve
