#pragma once

#include "formats/device_layer.hpp"

#include <algorithm>
#include <vector>

namespace varve {

/// Consecutive small layers of one format as images: everything that a kernel reads of a layer is one contiguous piece
/// of memory of the same size for each layer, so that a team can copy the next layer into scratch without a lookup.
/// Image: header, then slice chunks, biases, neurons, indices and weights as in the format, each aligned.
template <class ExecutionSpace, class Format>
class LayerImages {
public:
  using Scalar = typename Format::Scalar;
  using Index = typename Format::Index;
  using Edges = typename Format::Edges;
  static constexpr std::size_t alignment = ImageLayout::alignment;

  /// Bytes that the image of a layer needs.
  static std::size_t bytes_of(Format const& layer) { return header_of(layer).end; }

  LayerImages() = default;
  explicit LayerImages(std::vector<Format> const& layers) {
    for (auto const& layer : layers) stride_ = std::max(stride_, bytes_of(layer));
    images_ = DeviceArray<ExecutionSpace, unsigned char>(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::layer_images"), stride_ * layers.size());
    ExecutionSpace const space;
    std::vector<Header> headers; // must outlive the asynchronous copies below
    headers.reserve(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      Format const& layer = layers[i];
      unsigned char* const image = images_.data() + i * stride_;
      headers.push_back(header_of(layer));
      Header const& header = headers.back();
      Kokkos::deep_copy(space, bytes_at(image, sizeof(Header)),
                        Kokkos::View<unsigned char const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                            reinterpret_cast<unsigned char const*>(&header), sizeof(Header)));
      copy_in(space, image + header.slice_chunks, layer.slice_chunks);
      copy_in(space, image + header.bias, layer.frame.bias);
      copy_in(space, image + header.neurons, layer.frame.neurons);
      copy_in(space, image + header.indices, layer.indices);
      copy_in(space, image + header.weights, layer.weights);
    }
    space.fence("varve: layer images");
  }

  /// All images; image i begins at byte i * stride().
  ArrayView<unsigned char const> bytes() const { return images_; }
  std::size_t stride() const { return stride_; }

  /// The layer of an image as a kernel argument; its arrays point into the image.
  KOKKOS_FORCEINLINE_FUNCTION static Edges edges_in(ArrayView<unsigned char const> const& image) {
    auto const& header = piece_of<Header>(image, 0);
    return {{header.num_inputs, header.num_outputs, header.bounds, header.bias_stride,
             array_at<double>(image, header.bias, header.neurons),
             array_at<NeuronIndex>(image, header.neurons, header.indices)},
            array_at<std::uint32_t>(image, header.slice_chunks, header.bias),
            array_at<Index>(image, header.indices, header.weights),
            array_at<Scalar>(image, header.weights, header.end),
            header.chunks_per_slice};
  }

private:
  struct alignas(alignment) Header {
    Bounds<Scalar> bounds;
    int num_inputs, num_outputs, bias_stride, chunks_per_slice;
    int slice_chunks, bias, neurons, indices, weights, end; ///< offsets in bytes
  };

  static_assert(sizeof(Header) <= image_header_bytes);

  /// The array in bytes [first, end) of an image, including the padding after it.
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION static ArrayView<T const> array_at(ArrayView<unsigned char const> const& image, int first,
                                                                 int end) {
    return array_in<T>(image, static_cast<std::size_t>(first), static_cast<std::size_t>(end - first) / sizeof(T));
  }

  static Header header_of(Format const& layer) {
    Header header{};
    header.bounds = layer.frame.bounds;
    header.num_inputs = layer.frame.num_inputs;
    header.num_outputs = layer.frame.num_outputs;
    header.bias_stride = layer.frame.bias_stride;
    header.chunks_per_slice = layer.chunks_per_slice;
    auto const layout = layout_of({.header = image_header_bytes,
                                   .slice_chunks = bytes_of_array(layer.slice_chunks),
                                   .bias = bytes_of_array(layer.frame.bias),
                                   .neurons = bytes_of_array(layer.frame.neurons),
                                   .indices = bytes_of_array(layer.indices),
                                   .weights = bytes_of_array(layer.weights)});
    header.end = narrowed<int>(layout.end, "bytes of the image of a layer"); // all parts end before it
    header.slice_chunks = static_cast<int>(layout.slice_chunks);
    header.bias = static_cast<int>(layout.bias);
    header.neurons = static_cast<int>(layout.neurons);
    header.indices = static_cast<int>(layout.indices);
    header.weights = static_cast<int>(layout.weights);
    return header;
  }

  template <class Array>
  static std::size_t bytes_of_array(Array const& array) {
    return array.size() * sizeof(typename Array::value_type);
  }

  static auto bytes_at(unsigned char* place, std::size_t bytes) {
    return Kokkos::View<unsigned char*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>(place, bytes);
  }

  template <class Array>
  static void copy_in(ExecutionSpace const& space, unsigned char* place, Array const& array) {
    std::size_t const bytes = array.size() * sizeof(typename Array::value_type);
    Kokkos::deep_copy(
        space, bytes_at(place, bytes),
        Kokkos::View<unsigned char const*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>(
            reinterpret_cast<unsigned char const*>(array.data()), bytes));
  }

  DeviceArray<ExecutionSpace, unsigned char> images_;
  std::size_t stride_ = 0;
};

} // namespace varve
