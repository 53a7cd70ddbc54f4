#pragma once

#include "network/network.hpp"
#include "network/sparse_matrix.hpp"
#include "plan/device_traits.hpp"
#include "plan/names.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Byte offsets of the parts of a layer in sliced ELL within its image (formats/layer_images.hpp), each a multiple of
/// the alignment.
struct ImageLayout {
  static constexpr std::size_t alignment = 16;

  std::size_t slice_chunks = 0, bias = 0, neurons = 0, indices = 0, weights = 0;
  std::size_t end = 0; ///< bytes of the whole image
};

/// Bytes of each part of an image.
struct ImageParts {
  std::size_t header = 0, slice_chunks = 0, bias = 0, neurons = 0, indices = 0, weights = 0;
};

/// Places the parts of an image one after another.
constexpr ImageLayout layout_of(ImageParts const& parts) {
  ImageLayout layout;
  std::size_t end = parts.header;
  auto const place = [&end](std::size_t bytes) {
    std::size_t const begin = end;
    end += (bytes + ImageLayout::alignment - 1) / ImageLayout::alignment * ImageLayout::alignment;
    return begin;
  };
  layout.slice_chunks = place(parts.slice_chunks);
  layout.bias = place(parts.bias);
  layout.neurons = place(parts.neurons);
  layout.indices = place(parts.indices);
  layout.weights = place(parts.weights);
  layout.end = end;
  return layout;
}

/// The number of outputs, rounded up to whole blocks of block_outputs; the default suits blocks of any power of two up
/// to 16. Biases and neurons are stored for this many positions, so that kernels may read past the last output.
constexpr std::size_t padded_outputs(std::size_t num_outputs, std::size_t block_outputs = 16) {
  return (num_outputs + block_outputs - 1) / block_outputs * block_outputs;
}

inline constexpr std::size_t image_header_bytes = 64;

/// The number of chunks of a layer in sliced ELL; a chunk of a slice holds a chunk of each of its blocks.
struct EllSize {
  std::size_t num_slices = 0;
  EdgeOffset num_chunks = 0;  ///< chunks of all slices together
  std::size_t max_chunks = 0; ///< chunks of the longest slice
};

/// True if 16 bits can number the inputs of a layer; edges then store inputs in 16 bits, else in 32. Each encoding must
/// ask for the layer that it encodes.
constexpr bool has_short_inputs(std::size_t num_inputs) { return num_inputs <= 65536; }

/// Bits in which the edges of a layer of this format store their input: its index in the list of a stage, the slot of a
/// cone, or the input itself.
constexpr int index_bits_of(FormatName format, std::size_t num_inputs) {
  bool const is_local = format == FormatName::staged_blocks || format == FormatName::cones;
  return is_local || has_short_inputs(num_inputs) ? 16 : 32;
}

/// Computes the size of a layer in sliced ELL without encoding it. order: position -> output.
EllSize ell_size(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, EllShape const& shape);

/// The order (position -> output) in which sliced ELL of single outputs stores outputs: outputs with equal inputs are
/// neighbours, or, if edges were ordered against bank conflicts, outputs that were ordered together.
std::vector<NeuronIndex> order_of_singles(SparseMatrix const& matrix);

/// The same for wide tiles of the fused kernel: for ascending edges the order of order_of_singles() or of
/// group_outputs(), whichever needs fewer wavefronts to read scratch.
std::vector<NeuronIndex> order_in_wide_tiles(SparseMatrix const& matrix);

/// The order (position -> output) by number of edges, descending; outputs with equal numbers keep their order. Empty,
/// which means 0, 1, 2, ..., if they are in this order already.
std::vector<NeuronIndex> order_by_size(SparseMatrix const& matrix);

/// Stored weights, padding included.
inline EdgeOffset num_stored(EllSize const& size, EllShape const& shape) {
  return size.num_chunks * shape.slice_width * shape.chunk_size * shape.block_outputs;
}

/// Stored weights of a layer in dense blocks of this shape, zeros and padding included.
EdgeOffset num_stored_densely(SparseMatrix const& matrix, EllShape const& shape);

/// True if CountedLayer suits a layer: one weight, one bias, at most 255 inputs per output, few outputs per input, and
/// at most max_outputs outputs.
bool suits_counts(Layer const& layer, std::size_t max_outputs);

/// True if Csc suits a layer: it has many inputs, also in proportion to its outputs, at most max_outputs outputs, and
/// its edges ascend.
bool suits_entries(Layer const& layer, std::size_t max_outputs);

/// Bytes of team scratch that the stationary kernel needs.
std::size_t stationary_bytes(EllShape const& shape, std::size_t blocks_per_team, std::size_t max_chunks,
                             std::size_t scalar_bytes, std::size_t index_bytes);

/// Bytes of the image of a layer (formats/layer_images.hpp) with 16-bit indices.
std::size_t image_bytes(Layer const& layer, EllShape const& shape, EllSize const& size, std::size_t scalar_bytes);

/// True if, by the measured rates of the device, a layer in dense blocks of `stored` weights, zeros included, is faster
/// than its edges alone in sliced ELL, and faster than in pattern blocks of this shape.
bool gains_from_dense(SparseMatrix const& matrix, EdgeOffset stored, EllShape const& pattern_blocks,
                      DeviceTraits const& device);

} // namespace varve
