#pragma once

#include "distribute/batch_queue.hpp"
#include "engine/inference.hpp"
#include "io/sample_reader.hpp"
#include "network/sample_set.hpp"
#include "receipts/digests.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
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
  std::vector<SampleLeaves> leaves;      ///< one per sample, if digests are wanted; else empty

  bool operator==(FinishedBatch const&) const = default;
};

/// Appends the results of the samples that directly follow those of the batch.
void append(FinishedBatch& batch, BatchResult const& next);

/// Serializes a batch for a file or a message: a fixed sequence of little-endian numbers (JOURNAL.md).
std::string to_bytes(FinishedBatch const& batch);

/// Deserializes a batch. Throws InputError, naming `place`, if the bytes are not a whole batch or its lists contradict
/// each other in length or order, or its activations are not a valid matrix.
FinishedBatch batch_of_bytes(std::string_view bytes, std::string const& place);

/// Counts and times of one rank; times are in seconds.
struct RankCounts {
  std::size_t num_batches = 0;
  SampleIndex num_samples = 0;
  double upload_seconds = 0.0;
  double collect_seconds = 0.0;
  double wait_seconds = 0.0;  ///< time waiting for samples that were not on the device in time
  double read_seconds = 0.0;  ///< time reading samples, while others were computed
  double stage_seconds = 0.0; ///< time uploading samples ahead, while others were computed
  double staged_bytes = 0.0;  ///< bytes copied to upload samples ahead
  /// Time in the layer loop for exchanging activations, if neurons are split across ranks.
  double exchange_seconds = 0.0;
  double exchange_bytes = 0.0; ///< bytes received in that exchange
  double record_seconds = 0.0; ///< time storing finished batches, while others were computed
  double busy_seconds = 0.0;   ///< time from taking each batch until all its results were known
  double live_edges = 0.0;
  double weight_wait_seconds = 0.0; ///< time waiting for weights streamed to the device
  double weight_copy_seconds = 0.0; ///< time copying streamed weights, while the device computed
  double weight_make_seconds = 0.0; ///< time reading and encoding streamed weights again, while the device computed
  double weight_bytes = 0.0;        ///< bytes of weights copied
};

struct RankTimes : RankCounts {
  std::vector<double> loop_seconds; ///< time in the layer loop, summed over all batches, one element per repetition
};

/// Collective. Returns the times of all ranks in rank order on rank 0, and an empty list on other ranks.
std::vector<RankTimes> gather(Communicator const& communicator, RankTimes const& times);

/// Called after each batch; returns false to stop taking batches. With Schedule::together, all ranks must return the
/// same.
using GoesOn = std::function<bool()>;

/// Stores the results of a batch. Another thread calls it, for one batch after the other.
using KeepBatch = std::function<void(FinishedBatch const&)>;

/// Runs this rank's batches of the queue, each in parts of at most `batch` samples, and gives the results to keep().
/// While one batch runs, separate threads upload the samples of the next, read those of the batch after it, and store
/// the results of the batch before. If anything throws, the queue is stopped, so that the other ranks end as well.
RankTimes run_batches(Inference& inference, SampleReader& samples, BatchQueue& queue, KeepBatch const& keep,
                      std::size_t batch, WantedOutputs wanted, GoesOn const& goes_on);

} // namespace varve
