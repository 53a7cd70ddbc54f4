#pragma once

#include <cstddef>

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

/// The number of outputs, rounded up to whole blocks of block_outputs, by default of any power of two up to 16. Biases
/// and neurons are stored for this many positions, so that kernels may read past the last output.
constexpr std::size_t padded_outputs(std::size_t num_outputs, std::size_t block_outputs = 16) {
  return (num_outputs + block_outputs - 1) / block_outputs * block_outputs;
}

/// Bytes of the header of an image.
inline constexpr std::size_t image_header_bytes = 64;

} // namespace varve
