#pragma once

#include "core/execution.hpp"
#include "kernels/chunk_pipeline.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// The edges of neighbouring slices of sliced ELL as stages of `StageChunks` chunks, which ChunkPipeline brings to team
/// scratch for a team of TeamSize: first the weights of a stage, then its indices. A stage may hold the end of a slice
/// and the beginning of the next one. chunk_edges: edges of a chunk of a slice.
template <class Scalar, class Index, int chunk_edges, int StageChunks, int TeamSize>
struct EdgeStages {
  static constexpr int num_edges = StageChunks * chunk_edges; ///< of a stage
  static constexpr int weight_pieces = num_edges * static_cast<int>(sizeof(Scalar)) / 16;
  static constexpr int index_pieces = num_edges * static_cast<int>(sizeof(Index)) / 16;
  static constexpr int num_pieces = weight_pieces + index_pieces;
  static_assert(weight_pieces % TeamSize == 0, "a thread's pieces are all weights or all indices");

  ArrayView<Scalar const> weights; ///< of all stages
  ArrayView<Index const> indices;

  /// The chunks [first, last) of a layer.
  template <class Edges>
  KOKKOS_FORCEINLINE_FUNCTION EdgeStages(Edges const& layer, std::uint32_t first, std::uint32_t last) {
    std::size_t const begin = static_cast<std::size_t>(first) * chunk_edges;
    std::size_t const count = static_cast<std::size_t>(last - first) * chunk_edges;
    weights = part_of(layer.weights, begin, count);
    indices = part_of(layer.indices, begin, count);
  }

  /// See ChunkPipeline.
  KOKKOS_FORCEINLINE_FUNCTION SourcePiece at(int stage, int first, int rank) const {
    if (first < weight_pieces) return source_piece(weights, place(stage, weight_pieces, first + rank));
    return source_piece(indices, place(stage, index_pieces, first - weight_pieces + rank));
  }

  /// The weights and the indices of a stage in team scratch.
  KOKKOS_FORCEINLINE_FUNCTION static ArrayView<Scalar const> weights_in(ArrayView<std::byte const> const& stage) {
    return array_in<Scalar>(stage, 0, num_edges);
  }
  KOKKOS_FORCEINLINE_FUNCTION static ArrayView<Index const> indices_in(ArrayView<std::byte const> const& stage) {
    return array_in<Index>(stage, num_edges * sizeof(Scalar), num_edges);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t place(int stage, int pieces_per_stage, int piece) {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(pieces_per_stage) +
           static_cast<std::size_t>(piece);
  }
};

} // namespace varve
