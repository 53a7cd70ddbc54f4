#pragma once

#include "formats/csr.hpp"
#include "formats/dense_blocks.hpp"
#include "formats/sliced_ell.hpp"
#include "formats/staged_blocks.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace varve::test {

/// Decode a layer: its weights that are not 0 (in CSR, all) as values of Scalar, one per entry, by output and in the
/// order of the format.
template <class ExecutionSpace, class Scalar, class Index>
SparseMatrix decoded(Csr<ExecutionSpace, Scalar, Index> const& format) {
  SparseMatrix matrix;
  matrix.num_rows = static_cast<std::size_t>(format.frame.num_outputs);
  matrix.num_columns = static_cast<std::size_t>(format.frame.num_inputs);
  matrix.row_pointers = download(format.row_pointers);
  auto const indices = download(format.indices);
  auto const weights = download(format.weights);
  matrix.column_indices.assign(indices.begin(), indices.end());
  matrix.values.assign(weights.begin(), weights.end());
  return matrix;
}

template <class ExecutionSpace, class Scalar, int BlockOutputs, int ChunkSize, int PieceInputs>
SparseMatrix decoded(DenseBlocks<ExecutionSpace, Scalar, BlockOutputs, ChunkSize, PieceInputs> const& format) {
  auto const weights = download(format.weights);
  SparseMatrix matrix;
  matrix.num_rows = static_cast<std::size_t>(format.frame.num_outputs);
  matrix.num_columns = static_cast<std::size_t>(format.frame.num_inputs);
  std::size_t const block_size = format.padded_inputs(matrix.num_columns) * BlockOutputs;
  for (std::size_t output = 0; output < matrix.num_rows; ++output) {
    std::size_t const block = output / BlockOutputs * block_size;
    for (std::size_t input = 0; input < matrix.num_columns; ++input) {
      Scalar const weight = weights[block + format.place_of(input, output % BlockOutputs)];
      if (weight == Scalar(0)) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(input));
      matrix.values.push_back(weight);
    }
    matrix.row_pointers.push_back(matrix.column_indices.size());
  }
  return matrix;
}

template <class ExecutionSpace, class Scalar, class Index, int SliceWidth, int ChunkSize, int BlockOutputs>
SparseMatrix decoded(SlicedEll<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize, BlockOutputs> const& format) {
  using Format = SlicedEll<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize, BlockOutputs>;
  auto const chunks = download(format.slice_chunks);
  auto const indices = download(format.indices);
  auto const weights = download(format.weights);
  auto const neurons = download(format.frame.neurons);
  auto const place = [](std::size_t chunk, int per_chunk, int within) {
    return chunk * static_cast<std::size_t>(SliceWidth * per_chunk) + static_cast<std::size_t>(within);
  };
  std::vector<std::vector<std::pair<NeuronIndex, double>>> rows(static_cast<std::size_t>(format.frame.num_outputs));
  std::size_t num_positions = rows.size(); // of all ranges
  if constexpr (Format::may_have_ranges) num_positions = chunks.size() - 1;
  for (std::size_t position = 0; position < num_positions; ++position) {
    std::size_t const block = position / BlockOutputs;
    int const block_in_slice = static_cast<int>(block % SliceWidth);
    int const output = static_cast<int>(position % BlockOutputs);
    auto& row = rows[neurons[position % rows.size()]];
    for (std::size_t chunk = chunks[block / SliceWidth]; chunk < chunks[block / SliceWidth + 1]; ++chunk) {
      for (int edge = 0; edge < ChunkSize; ++edge) {
        constexpr int per_chunk = ChunkSize * BlockOutputs;
        int const own = Format::template place_of<Scalar>(per_chunk, block_in_slice, edge * BlockOutputs + output);
        Scalar const weight = weights[place(chunk, per_chunk, own)];
        int const of_edge = Format::template place_of<Index>(ChunkSize, block_in_slice, edge);
        if (weight != Scalar(0)) row.emplace_back(indices[place(chunk, ChunkSize, of_edge)], weight);
      }
    }
  }
  SparseMatrix matrix;
  matrix.num_rows = rows.size();
  matrix.num_columns = static_cast<std::size_t>(format.frame.num_inputs);
  for (auto const& row : rows) {
    for (auto const& [input, weight] : row) {
      matrix.column_indices.push_back(input);
      matrix.values.push_back(weight);
    }
    matrix.row_pointers.push_back(matrix.column_indices.size());
  }
  return matrix;
}

template <class ExecutionSpace, class Scalar, int SliceWidth, int ChunkSize, int BlockOutputs>
SparseMatrix decoded(StagedBlocks<ExecutionSpace, Scalar, SliceWidth, ChunkSize, BlockOutputs> const& format) {
  SparseMatrix matrix = decoded(format.blocks);
  auto const inputs = download(format.inputs);
  auto const input_pointers = download(format.input_pointers);
  auto const block_pointers = download(format.block_pointers);
  auto const neurons = download(format.blocks.frame.neurons);
  for (std::size_t stage = 0; stage + 1 < block_pointers.size(); ++stage) {
    auto const first = static_cast<std::size_t>(block_pointers[stage]) * BlockOutputs;
    auto const last = std::min(static_cast<std::size_t>(block_pointers[stage + 1]) * BlockOutputs, matrix.num_rows);
    for (std::size_t position = first; position < last; ++position) {
      std::size_t const output = neurons.empty() ? position : neurons[position];
      for (EdgeOffset edge = matrix.row_pointers[output]; edge < matrix.row_pointers[output + 1]; ++edge)
        matrix.column_indices[edge] = inputs[input_pointers[stage] + matrix.column_indices[edge]];
    }
  }
  return matrix;
}

} // namespace varve::test
