#include "training/training_data.hpp"

#include "network/activations.hpp"
#include "network/network.hpp"

#include <bit>

namespace varve {
namespace {

/// A hash of a matrix, in which absent entries and zeros count alike.
std::uint64_t hash_of(SparseMatrix const& matrix, Precision precision) {
  std::uint64_t sum = 0;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      double const value = matrix.value(entry);
      if (value == 0.0) continue;
      std::uint64_t const bits = precision == Precision::double_precision
                                     ? std::bit_cast<std::uint64_t>(value)
                                     : std::bit_cast<std::uint32_t>(static_cast<float>(value));
      sum += activation_fingerprint(row, matrix.column_indices[entry], bits);
    }
  }
  return sum;
}

std::uint64_t hash_of(Answers const& answers, Precision precision) {
  constexpr std::uint64_t label_mark = 1; // no bits of a target: those of 1e-45f and 5e-324
  if (!answers.are_labels()) return hash_of(answers.values, precision);
  std::uint64_t sum = 0;
  for (std::size_t sample = 0; sample < answers.labels.size(); ++sample)
    sum += activation_fingerprint(sample, answers.labels[sample], label_mark);
  return sum;
}

} // namespace

TrainingData training_data_of(Network const& network, SampleSet const& samples, Answers const& answers,
                              Precision precision) {
  return {samples.num_samples(), weights_hash(network), hash_of(samples.matrix, precision),
          hash_of(answers, precision)};
}

} // namespace varve
