#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Consecutive outputs of a layer, with all their edges. A layer that does not fit on a device passes through it in
/// strips, one after another; each output is computed as in the whole layer.
struct OutputStrip {
  std::size_t first_output = 0;
  std::size_t num_outputs = 0;
};

/// What decides the bytes of a strip on a device.
struct StripShape {
  std::size_t block_outputs = 1;     ///< outputs that are stored together; only the last strip may end within a block
  std::size_t dense_block_bytes = 0; ///< dense layers: bytes of the weights of a block; 0: edges are stored
  std::size_t edge_bytes = 0;        ///< bytes of an edge, unless the layer is dense
};

/// Upper bound of the bytes that the largest strip takes on a device if strips are as small as can be.
std::size_t least_strip_bytes(SparseMatrix const& matrix, StripShape const& shape);

/// Cuts a layer into strips that take at most `most_bytes` on a device, which must not be less than
/// least_strip_bytes(); all but the last are as large as that allows.
std::vector<OutputStrip> cut_into_strips(SparseMatrix const& matrix, StripShape const& shape, std::size_t most_bytes);

/// The outputs of a strip as a layer of their own.
Layer layer_of(Layer const& whole, OutputStrip const& strip);

} // namespace varve
