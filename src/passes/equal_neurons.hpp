#pragma once

#include "core/types.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace varve {

/// Maps the neurons of one layer of a source to those of the rewritten layer. Merged neurons share a number; numbers
/// ascend with the first neuron of each.
struct NeuronMap {
  /// Removed: the neuron always equals `constants[i]`.
  static constexpr NeuronIndex kConstant = std::numeric_limits<NeuronIndex>::max();
  static constexpr NeuronIndex kUnread = kConstant - 1; ///< removed: nothing reads the neuron

  std::size_t num_before = 0;   ///< neurons of the source's layer
  std::size_t num_numbered = 0; ///< neurons that remain
  /// One per source neuron: its new number, kConstant or kUnread; empty if all keep their numbers.
  std::vector<NeuronIndex> numbers;
  std::vector<double> constants; ///< one per source neuron, valid for kConstant; empty if there is no constant

  static NeuronMap identity(std::size_t neurons) { return {neurons, neurons, {}, {}}; }

  bool is_identity() const { return numbers.empty() && num_before == num_numbered; }
  NeuronIndex number(std::size_t neuron) const {
    return numbers.empty() ? static_cast<NeuronIndex>(neuron) : numbers[neuron];
  }
  /// True if all neurons are gone. One neuron that reads nothing and that nothing reads then stands in for them, so
  /// that no layer becomes empty.
  bool is_stand_in() const { return num_before > 0 && num_numbered == 0; }
  std::size_t width() const { return is_stand_in() ? 1 : num_numbered; } ///< number of outputs of the rewritten layer
};

/// The numbers 0 to count - 1.
std::vector<NeuronIndex> ascending(std::size_t count);

/// The source neurons that remain, ascending: the first of each set of merged neurons.
std::vector<NeuronIndex> kept_neurons(NeuronMap const& map);

// How neurons are compared: by hash first, then bit for bit.

/// Hash of a neuron; neurons with equal hashes are compared in full. `weights` has one element per input, or none if
/// all neurons compared have the same weights.
using NeuronHash = std::uint64_t (*)(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

/// The default hash of a neuron; only tests that want collisions use another.
std::uint64_t neuron_hash(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

/// True if numbers are stored as the same bits, one by one.
bool same_bits(std::span<double const> one, std::span<double const> other);

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

/// For each row the first row that equals it. Candidates are found by hash and compared in full.
std::vector<NeuronIndex> firsts_of_equals(RenamedRows const& rows, NeuronHash hash);

/// For each output of a layer the first output that equals it, without renaming inputs.
std::vector<NeuronIndex> firsts_of_equals(Layer const& layer, NeuronHash hash);

} // namespace varve
