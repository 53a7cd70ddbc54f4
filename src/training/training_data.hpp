#pragma once

#include "core/types.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// What a training begins with besides its recipe, as hashes: a checkpoint continues with the same data only.
struct TrainingData {
  std::size_t num_samples = 0;
  std::uint64_t network = 0; ///< weights_hash() of the network before the first step
  std::uint64_t samples = 0; ///< of all values that are not 0, each with its row and neuron
  std::uint64_t answers = 0; ///< of the labels, or of the targets that are not 0, each with its row and output
};

/// Hashes what is trained, in the precision in which it is trained: data that differ in how they are stored alone, or
/// by less than the precision tells, have the same hashes.
TrainingData training_data_of(Network const& network, SampleSet const& samples, Answers const& answers,
                              Precision precision);

/// The order of the samples in an epoch (from 0): the row of the sample at each position. It depends only on the seed
/// and the epoch, so that training can continue at any step. (Fisher and Yates's shuffle with the counter-based
/// generator of radixnet/random.hpp.)
std::vector<std::uint64_t> sample_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_samples);

} // namespace varve
