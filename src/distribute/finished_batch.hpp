#pragma once

#include "engine/inference.hpp"
#include "io/sample_range.hpp"
#include "network/sample_set.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// What one batch gave: all that outputs and report are made of, without times.
struct FinishedBatch {
  SampleRange samples;                   ///< [first, last) within the samples that are run, from 0
  std::uint64_t activation_hash = 0;     ///< sum of the fingerprints of all nonzero last activations
  double live_edges = 0.0;               ///< as in BatchResult
  std::vector<SampleIndex> live_samples; ///< ascending, numbered within the whole input
  std::vector<NeuronIndex> predictions;  ///< of each sample, if wanted
  SampleSet activations;                 ///< [samples of the batch, outputs], if wanted

  bool operator==(FinishedBatch const&) const = default;
};

/// Takes in what the samples right behind those so far gave.
void append(FinishedBatch& batch, BatchResult const& next);

/// The batch as bytes, for a file or a message: a fixed order of little-endian numbers (JOURNAL.md).
std::string to_bytes(FinishedBatch const& batch);

/// The batch of these bytes. Throws InputError, naming `place`, if they are no whole batch, or its lists contradict
/// each other: their lengths, their order, activations that are no matrix.
FinishedBatch batch_of_bytes(std::string_view bytes, std::string const& place);

} // namespace varve
