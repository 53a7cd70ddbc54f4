#pragma once

#include "core/error.hpp"
#include "formats/device_layer.hpp"
#include "passes/edge_order.hpp"
#include "passes/output_order.hpp"
#include "plan/device_traits.hpp"

#include <cstdint>
#include <vector>

namespace varve {

/// A layer as a dense matrix, for layers with an edge between most pairs of neurons. Blocks of `BlockOutputs` outputs
/// store a weight for every input, zero where there is no edge, so there are no indices, and a kernel reads each input
/// once for all outputs of a block. The number of inputs is padded to a multiple of `ChunkSize`, the number of outputs
/// to whole blocks, with weights 0. An output's weights for `PieceInputs` neighbouring inputs are contiguous.
///
/// Bits: the sums of the layer are chains over the edges in ascending order of inputs, so encode() requires ascending
/// edges. A weight 0 in such a chain computes fma(0, x, sum) with finite x (activations and samples are finite in every
/// precision). If sum is not zero, the result is sum, infinities and NaN included. If sum is +0, the result is +0. If
/// sum is -0 (a product below zero may round to it), the result is +0 or -0, depending on the sign of x: a zero, but
/// perhaps of the other sign. The sign of a zero sum has no effect: a product that is not zero gives the same sum after
/// either zero, a product that is zero gives a zero again, and finish() adds the bias, which is never -0, so that both
/// zeros give the same bits.
template <class ExecutionSpace, class Scalar_, int BlockOutputs, int ChunkSize, int PieceInputs = 1>
struct DenseBlocks {
  using Scalar = Scalar_;
  using Index = std::uint32_t; ///< type of input numbers
  static constexpr int block_outputs = BlockOutputs;
  static constexpr int chunk_size = ChunkSize;
  static constexpr int piece_inputs = PieceInputs;
  static constexpr bool may_have_curve = false; ///< on GPUs
  static_assert(ChunkSize % PieceInputs == 0);

  KOKKOS_FORCEINLINE_FUNCTION static constexpr std::size_t padded_inputs(std::size_t num_inputs) {
    constexpr auto chunk = static_cast<std::size_t>(ChunkSize);
    return (num_inputs + chunk - 1) / chunk * chunk;
  }

  /// Index of a weight in its block.
  static constexpr std::size_t place_of(std::size_t input, std::size_t output_of_block) {
    constexpr auto piece = static_cast<std::size_t>(PieceInputs);
    return (input / piece * BlockOutputs + output_of_block) * piece + input % piece;
  }

  /// The layer as a kernel argument: trivially copyable, valid during the lifetime of the format.
  struct Edges {
    static constexpr int edges_at_a_time = 1;
    static constexpr bool is_dense = true;

    LayerParameters<Scalar> parameters;
    ArrayView<Scalar const> weights; ///< [block][place_of(input, padded; output of the block)]

    KOKKOS_FORCEINLINE_FUNCTION int num_blocks() const {
      return (parameters.num_outputs + BlockOutputs - 1) / BlockOutputs;
    }

    /// Number of weights of a block.
    KOKKOS_FORCEINLINE_FUNCTION std::size_t block_size() const {
      return padded_inputs(static_cast<std::size_t>(parameters.num_inputs)) * BlockOutputs;
    }

    /// The weights of a block; place_of() gives their indices.
    KOKKOS_FORCEINLINE_FUNCTION Scalar const* weights_of(int block) const {
      return elements_of(weights, static_cast<std::size_t>(block) * block_size(), block_size());
    }

    /// Calls visit(&input, weights_of) for every input of a block, ascending: weights_of(0)[output] is the input's
    /// weight for an output of the block.
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_edges(int block, Visit const& visit) const {
      static_assert(PieceInputs == 1);
      Scalar const* of_input = weights_of(block);
      for (Index input = 0; input < static_cast<Index>(parameters.num_inputs); ++input, of_input += BlockOutputs)
        visit(&input, [&](int) { return of_input; });
    }
  };

  Edges edges() const { return {frame.parameters(), weights}; }

  static auto arrays_of(auto& format) { return std::tie(format.frame.bias, format.frame.neurons, format.weights); }

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, Scalar> weights;

  int num_outputs() const { return frame.num_outputs; }

  static constexpr EllShape shape() {
    return {1, static_cast<std::size_t>(ChunkSize), static_cast<std::size_t>(BlockOutputs)};
  }

  /// A layer in this format on the host.
  struct Encoded {
    using Format = DenseBlocks;
    std::vector<Scalar> weights;

    std::size_t bytes() const { return weights.size() * sizeof(Scalar); }
  };

  /// Encodes a valid layer whose edges ascend.
  static Encoded encode(SparseMatrix const& matrix) {
    VARVE_REQUIRE(is_ascending(matrix), "a dense layer computes its sums in ascending order of inputs");
    std::size_t const block_size = padded_inputs(matrix.num_columns) * BlockOutputs;
    Encoded encoded;
    encoded.weights.assign(count_blocks(matrix, BlockOutputs) * block_size, Scalar(0));
    for (std::size_t output = 0; output < matrix.num_rows; ++output) {
      Scalar* const block = encoded.weights.data() + output / BlockOutputs * block_size;
      for (EdgeOffset edge = matrix.row_pointers[output]; edge < matrix.row_pointers[output + 1]; ++edge)
        block[place_of(matrix.column_indices[edge], output % BlockOutputs)] = static_cast<Scalar>(matrix.value(edge));
    }
    return encoded;
  }

  DenseBlocks() = default;
  DenseBlocks(Layer const& layer, Encoded const& encoded, LayerArrays<ExecutionSpace> const& arrays = {})
      : frame(layer, {}, arrays, BlockOutputs), weights(arrays.put("varve::weights", encoded.weights)) {}
};

} // namespace varve
