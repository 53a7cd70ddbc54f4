#pragma once

#include "network/network.hpp"
#include "plan/device_traits.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Chunks of sliced ELL.
struct EllSize {
  std::size_t num_slices = 0;
  EdgeOffset num_chunks = 0;  ///< of a block each: all slices together
  std::size_t max_chunks = 0; ///< of a slice
};
EllSize ell_size(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, EllShape const& shape);

/// In which order outputs are stored one by one: those that read the same side by side, or, where edges were ordered
/// against bank conflicts, those that were ordered together.
std::vector<NeuronIndex> order_of_singles(SparseMatrix const& matrix);

/// Weights stored, padding included.
inline EdgeOffset num_stored(EllSize const& size, EllShape const& shape) {
  return size.num_chunks * shape.slice_width * shape.chunk_size * shape.block_outputs;
}

/// True if a layer can be counted: one weight, one bias, at most 255 inputs of an output and few outputs of an input.
bool suits_counts(Layer const& layer, std::size_t max_outputs);

/// Bytes of team scratch that the stationary kernel needs.
std::size_t stationary_bytes(EllShape const& shape, std::size_t blocks_per_team, std::size_t max_chunks,
                             std::size_t scalar_bytes, std::size_t index_bytes);

/// Bytes of the image of a layer (formats/layer_images.hpp) with 16-bit indices.
std::size_t image_bytes(Layer const& layer, EllShape const& shape, EllSize const& size, std::size_t scalar_bytes);

} // namespace varve
