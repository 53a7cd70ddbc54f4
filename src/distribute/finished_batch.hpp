#pragma once

#include "engine/inference.hpp"
#include "io/sample_range.hpp"
#include "network/sample_set.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// The results of one batch: everything that outputs and the report need, except times.
struct FinishedBatch {
  SampleRange samples;                   ///< [first, last) within the samples that are run, from 0
  std::uint64_t activation_hash = 0;     ///< sum of the fingerprints of all nonzero last activations
  double live_edges = 0.0;               ///< BatchResult::live_edges
  std::vector<SampleIndex> live_samples; ///< ascending, numbered within the whole input from 0
  std::vector<NeuronIndex> predictions;  ///< one per sample, if wanted; else empty
  SampleSet activations;                 ///< shape [samples of the batch, outputs], if wanted; else without rows

  bool operator==(FinishedBatch const&) const = default;
};

/// Appends the results of the samples that directly follow those of the batch.
void append(FinishedBatch& batch, BatchResult const& next);

/// Serializes a batch for a file or a message: a fixed sequence of little-endian numbers (JOURNAL.md).
std::string to_bytes(FinishedBatch const& batch);

/// Deserializes a batch. Throws InputError, naming `place`, if the bytes are not a whole batch or its lists contradict
/// each other in length or order, or its activations are not a valid matrix.
FinishedBatch batch_of_bytes(std::string_view bytes, std::string const& place);

} // namespace varve
