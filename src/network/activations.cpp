#include "network/activations.hpp"

#include <bit>

namespace varve {

std::uint64_t hash(SparseMatrix const& matrix, SampleIndex first_sample, Precision precision) {
  std::uint64_t sum = 0;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      double const value = matrix.value(entry);
      if (value == 0.0) continue;
      std::uint64_t const bits = precision == Precision::double_precision
                                     ? std::bit_cast<std::uint64_t>(value)
                                     : std::bit_cast<std::uint32_t>(static_cast<float>(value));
      sum += activation_fingerprint(first_sample + row, matrix.column_indices[entry], bits);
    }
  }
  return sum;
}

std::vector<NeuronIndex> largest(SparseMatrix const& activations) {
  std::vector<NeuronIndex> neurons(activations.num_rows, 0);
  for (std::size_t row = 0; row < activations.num_rows; ++row) {
    auto const columns = activations.row_columns(row);
    EdgeOffset const begin = activations.row_pointers[row];
    NeuronIndex first_absent = 0; // the lowest column without an entry; it stands for all zeros
    for (NeuronIndex const column : columns) first_absent += column == first_absent ? 1U : 0U;
    bool const has_absent = first_absent < activations.num_columns;
    double best = has_absent ? 0.0 : activations.value(begin);
    NeuronIndex neuron = has_absent ? first_absent : columns[0];
    for (std::size_t k = 0; k < columns.size(); ++k) {
      double const value = activations.value(begin + k);
      if (value > best || (value == best && columns[k] < neuron)) {
        best = value;
        neuron = columns[k];
      }
    }
    neurons[row] = neuron;
  }
  return neurons;
}

} // namespace varve
