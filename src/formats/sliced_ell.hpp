#pragma once

#include "formats/device_layer.hpp"

#include <algorithm>
#include <cstring>

namespace varve {

/// Sliced ELL: `SliceWidth` neighbouring outputs form a slice; their edge lists are padded to the longest of them, in
/// chunks of `ChunkSize` edges. Within a slice a chunk is stored output by output in pieces of at most 16 bytes, so
/// that the threads of a slice read adjacent pieces. Padding has weight 0 and the last input of its output (input 0 for
/// an output without edges), so it changes no sum of finite activations.
/// After Hidayetoglu et al. 2020 (slices and compact indices); the interleaved pieces are ours.
///
/// Order of edges within an output: ascending input. Index: std::uint16_t where the inputs fit, else std::uint32_t.
template <class ExecutionSpace, class Scalar_, class Index_, int SliceWidth_, int ChunkSize_>
struct SlicedEll {
  using Scalar = Scalar_;
  using Index = Index_;
  static constexpr int slice_width = SliceWidth_;
  static constexpr int chunk_size = ChunkSize_;

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> slice_chunks; ///< first chunk of each slice, and the end
  ConstDeviceArray<ExecutionSpace, std::uint32_t> degrees;      ///< edges of each output, without padding
  ConstDeviceArray<ExecutionSpace, Index> indices;              ///< chunk * slice_width * chunk_size + place_of
  ConstDeviceArray<ExecutionSpace, Scalar> weights;

  /// Place of an edge within the block of one chunk of a slice, for elements of the given size.
  template <class Element>
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int place_of(int output_in_slice, int edge_in_chunk) {
    constexpr int per_piece = piece_size<Element>();
    return (edge_in_chunk / per_piece * slice_width + output_in_slice) * per_piece + edge_in_chunk % per_piece;
  }

  /// Calls visit(input, weight) for each edge of an output, in order; padding included.
  template <class Visit>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_edge(int output, Visit const& visit) const {
    int const slice = output / slice_width;
    int const output_in_slice = output % slice_width;
    std::uint32_t const last = slice_chunks(slice + 1);
    for (std::uint32_t chunk = slice_chunks(slice); chunk < last; ++chunk) {
      std::size_t const block = static_cast<std::size_t>(chunk) * slice_width * chunk_size;
      Chunk<Index> input;
      Chunk<Scalar> weight;
      load(input, indices.data() + block, output_in_slice);
      load(weight, weights.data() + block, output_in_slice);
      VARVE_UNROLL
      for (int edge = 0; edge < chunk_size; ++edge) visit(static_cast<int>(input.at[edge]), weight.at[edge]);
    }
  }

  std::size_t bytes() const {
    return slice_chunks.size() * sizeof(std::uint32_t) + degrees.size() * sizeof(std::uint32_t) +
           indices.size() * sizeof(Index) + weights.size() * sizeof(Scalar) + frame.bias.size() * sizeof(double);
  }

private:
  template <class Element>
  static constexpr int piece_size() {
    return std::min(chunk_size, static_cast<int>(16 / sizeof(Element)));
  }
  template <class Element>
  struct alignas(sizeof(Element) * piece_size<Element>()) Piece {
    Element at[piece_size<Element>()];
  };
  template <class Element>
  struct Chunk {
    Element at[chunk_size];
  };
  template <class Element>
  KOKKOS_FORCEINLINE_FUNCTION static void load(Chunk<Element>& chunk, Element const* block, int output_in_slice) {
    constexpr int per_piece = piece_size<Element>();
    VARVE_UNROLL
    for (int piece = 0; piece < chunk_size / per_piece; ++piece) {
      auto const source =
          *reinterpret_cast<Piece<Element> const*>(block + (piece * slice_width + output_in_slice) * per_piece);
      VARVE_UNROLL
      for (int i = 0; i < per_piece; ++i) chunk.at[piece * per_piece + i] = source.at[i];
    }
  }
};

/// Builds the format from a valid layer of at most 2^31 - 1 inputs and outputs whose inputs fit Index.
template <class Format>
struct SlicedEllBuilder;

template <class ExecutionSpace, class Scalar, class Index, int SliceWidth, int ChunkSize>
struct SlicedEllBuilder<SlicedEll<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize>> {
  using Format = SlicedEll<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize>;

  /// Edges stored, padding included, if this layer were built.
  static EdgeOffset num_stored(SparseMatrix const& matrix) {
    EdgeOffset chunks = 0;
    for (std::size_t first = 0; first < matrix.num_rows; first += SliceWidth) chunks += chunks_of_slice(matrix, first);
    return chunks * SliceWidth * ChunkSize;
  }

  static Format build(Layer const& layer) {
    SparseMatrix const& matrix = layer.weights;
    std::size_t const num_slices = (matrix.num_rows + SliceWidth - 1) / SliceWidth;
    std::vector<std::uint32_t> slice_chunks(num_slices + 1, 0);
    for (std::size_t slice = 0; slice < num_slices; ++slice) {
      slice_chunks[slice + 1] =
          slice_chunks[slice] + static_cast<std::uint32_t>(chunks_of_slice(matrix, slice * SliceWidth));
    }
    std::size_t const num_stored = static_cast<std::size_t>(slice_chunks.back()) * SliceWidth * ChunkSize;
    std::vector<Index> indices(num_stored, Index(0));
    std::vector<Scalar> weights(num_stored, Scalar(0));
    std::vector<std::uint32_t> degrees(matrix.num_rows);
    for (std::size_t output = 0; output < matrix.num_rows; ++output) {
      std::size_t const slice = output / SliceWidth;
      int const output_in_slice = static_cast<int>(output % SliceWidth);
      std::size_t const first_chunk = slice_chunks[slice];
      std::size_t const padded = (slice_chunks[slice + 1] - first_chunk) * ChunkSize;
      EdgeOffset const first_edge = matrix.row_pointers[output];
      std::size_t const degree = matrix.row_size(output);
      degrees[output] = static_cast<std::uint32_t>(degree);
      for (std::size_t edge = 0; edge < padded; ++edge) {
        std::size_t const block = (first_chunk + edge / ChunkSize) * SliceWidth * ChunkSize;
        int const edge_in_chunk = static_cast<int>(edge % ChunkSize);
        auto const index_place =
            block + static_cast<std::size_t>(Format::template place_of<Index>(output_in_slice, edge_in_chunk));
        auto const weight_place =
            block + static_cast<std::size_t>(Format::template place_of<Scalar>(output_in_slice, edge_in_chunk));
        if (edge < degree) {
          indices[index_place] = static_cast<Index>(matrix.column_indices[first_edge + edge]);
          weights[weight_place] = static_cast<Scalar>(matrix.value(first_edge + edge));
        } else if (degree > 0) {
          indices[index_place] = static_cast<Index>(matrix.column_indices[first_edge + degree - 1]);
        }
      }
    }
    Format format;
    format.frame = LayerFrame<ExecutionSpace, Scalar>(layer);
    format.slice_chunks = upload<ExecutionSpace>("varve::slice_chunks", slice_chunks);
    format.degrees = upload<ExecutionSpace>("varve::degrees", degrees);
    format.indices = upload<ExecutionSpace>("varve::indices", indices);
    format.weights = upload<ExecutionSpace>("varve::weights", weights);
    return format;
  }

  /// The weights back, without padding (as values of Scalar, one per entry).
  static SparseMatrix to_matrix(Format const& format) {
    auto const slice_chunks = download(format.slice_chunks);
    auto const degrees = download(format.degrees);
    auto const indices = download(format.indices);
    auto const weights = download(format.weights);
    SparseMatrix matrix;
    matrix.num_rows = static_cast<std::size_t>(format.frame.num_outputs);
    matrix.num_columns = static_cast<std::size_t>(format.frame.num_inputs);
    matrix.row_pointers.assign(1, 0);
    for (std::size_t output = 0; output < matrix.num_rows; ++output) {
      for (std::uint32_t edge = 0; edge < degrees[output]; ++edge) {
        std::size_t const chunk = slice_chunks[output / SliceWidth] + edge / ChunkSize;
        int const output_in_slice = static_cast<int>(output % SliceWidth);
        int const edge_in_chunk = static_cast<int>(edge % ChunkSize);
        auto const block = chunk * SliceWidth * ChunkSize;
        matrix.column_indices.push_back(indices[block + static_cast<std::size_t>(Format::template place_of<Index>(
                                                            output_in_slice, edge_in_chunk))]);
        matrix.values.push_back(static_cast<double>(
            weights[block +
                    static_cast<std::size_t>(Format::template place_of<Scalar>(output_in_slice, edge_in_chunk))]));
      }
      matrix.row_pointers.push_back(matrix.column_indices.size());
    }
    return matrix;
  }

private:
  static EdgeOffset chunks_of_slice(SparseMatrix const& matrix, std::size_t first) {
    EdgeOffset longest = 0;
    for (std::size_t row = first; row < std::min(first + SliceWidth, matrix.num_rows); ++row) {
      longest = std::max(longest, matrix.row_size(row));
    }
    return (longest + ChunkSize - 1) / ChunkSize;
  }
};

} // namespace varve
