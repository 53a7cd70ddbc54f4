#include "plan/output_strips.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cstdint>

namespace varve {
namespace {

/// Upper bound of the bytes of a strip as an image (formats/array_image.hpp).
std::size_t bytes_of(StripShape const& shape, std::size_t num_outputs, EdgeOffset num_edges) {
  constexpr std::size_t alignment = 256; // of each of at most five arrays
  constexpr std::size_t num_arrays = 5;
  constexpr std::size_t padding = 16; // outputs for which biases and neurons are stored, at least
  std::size_t const parameters =
      (num_outputs + std::max(padding, shape.block_outputs)) * (sizeof(double) + sizeof(NeuronIndex));
  std::size_t const blocks = (num_outputs + shape.block_outputs - 1) / shape.block_outputs;
  std::size_t const weights = shape.dense_block_bytes > 0
                                  ? blocks * shape.dense_block_bytes
                                  : (num_outputs + 1) * sizeof(EdgeOffset) + num_edges * shape.edge_bytes;
  return num_arrays * alignment + parameters + weights;
}

} // namespace

std::size_t least_strip_bytes(SparseMatrix const& matrix, StripShape const& shape) {
  std::size_t most = 0;
  for (std::size_t first = 0; first < matrix.num_rows; first += shape.block_outputs) {
    std::size_t const last = std::min(first + shape.block_outputs, matrix.num_rows);
    most = std::max(most, bytes_of(shape, last - first, matrix.row_pointers[last] - matrix.row_pointers[first]));
  }
  return most;
}

std::vector<OutputStrip> cut_into_strips(SparseMatrix const& matrix, StripShape const& shape, std::size_t most_bytes) {
  std::vector<OutputStrip> strips;
  for (std::size_t first = 0; first < matrix.num_rows; first += shape.block_outputs) {
    std::size_t const last = std::min(first + shape.block_outputs, matrix.num_rows);
    auto const bytes_up_to_here = [&](std::size_t begin) {
      return bytes_of(shape, last - begin, matrix.row_pointers[last] - matrix.row_pointers[begin]);
    };
    if (strips.empty() || bytes_up_to_here(strips.back().first_output) > most_bytes) strips.push_back({first, 0});
    VARVE_REQUIRE(bytes_up_to_here(strips.back().first_output) <= most_bytes, "a strip larger than its room");
    strips.back().num_outputs = last - strips.back().first_output;
  }
  return strips;
}

Layer layer_of(Layer const& whole, OutputStrip const& strip) {
  std::size_t const last = strip.first_output + strip.num_outputs;
  Layer layer;
  layer.weights = rows_of(whole.weights, strip.first_output, last);
  layer.bias = whole.bias;
  layer.activation = whole.activation;
  if (whole.bias.size() > 1) {
    layer.bias.assign(whole.bias.begin() + static_cast<std::ptrdiff_t>(strip.first_output),
                      whole.bias.begin() + static_cast<std::ptrdiff_t>(last));
  }
  if (layer.bias.empty()) layer.bias = {0.0}; // a part without outputs; valid layers have a bias
  return layer;
}

} // namespace varve
