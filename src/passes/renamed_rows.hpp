#pragma once

#include "network/network.hpp"
#include "passes/neuron_hash.hpp"
#include "passes/neuron_map.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace varve {

/// The number of chunks into which `rows` rows are divided among host threads.
std::size_t num_row_chunks(std::size_t rows);

/// The rows of a layer with inputs renamed, edges whose inputs were merged added up and edges from constants in the
/// bias, as rewrite() of passes/layer_rewrite.hpp says. Chunks of rows are built independently, on all host threads.
class RenamedRows {
public:
  /// Renames the given rows of the layer; they get the numbers 0, 1, ...
  RenamedRows(Layer const& layer, NeuronMap const& inputs, std::span<NeuronIndex const> rows, std::size_t num_chunks);

  std::size_t size() const { return num_rows_; }
  std::span<NeuronIndex const> inputs(std::size_t row) const { return part(row, chunk_of(row).inputs); }
  std::span<double const> weights(std::size_t row) const { return part(row, chunk_of(row).weights); }
  double bias(std::size_t row) const { return chunk_of(row).biases[row % rows_per_chunk_]; }

  /// True if all sums of weights and all biases are within float's range.
  bool are_in_range() const;
  std::uint64_t hash_of(std::size_t row, NeuronHash hash) const { return hash(inputs(row), weights(row), bias(row)); }
  /// True if two rows have equal inputs, weights and bias, bit for bit.
  bool are_equal(std::size_t one, std::size_t other) const;

  /// Consecutive rows.
  struct Chunk {
    std::vector<EdgeOffset> row_pointers = {0};
    std::vector<NeuronIndex> inputs;
    std::vector<double> weights;
    std::vector<double> biases;
    bool is_in_range = true; ///< all sums of weights and biases of these rows are within float's range
  };

private:
  Chunk const& chunk_of(std::size_t row) const { return chunks_[row / rows_per_chunk_]; }

  template <class Element>
  std::span<Element const> part(std::size_t row, std::vector<Element> const& elements) const {
    auto const& pointers = chunk_of(row).row_pointers;
    auto const begin = static_cast<std::size_t>(pointers[row % rows_per_chunk_]);
    return {elements.data() + begin, static_cast<std::size_t>(pointers[row % rows_per_chunk_ + 1]) - begin};
  }

  std::size_t num_rows_;
  std::size_t rows_per_chunk_;
  std::vector<Chunk> chunks_;
};

} // namespace varve
