#pragma once

#include "distribute/batch_queue.hpp"
#include "distribute/batch_store.hpp"
#include "engine/inference.hpp"
#include "io/sample_reader.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace varve {

/// What one rank did, in seconds where nothing else is said.
struct RankTimes {
  std::size_t num_batches = 0;
  SampleIndex num_samples = 0;
  std::vector<double> loop_seconds; ///< of all batches, for each repetition
  double upload_seconds = 0.0;
  double collect_seconds = 0.0;
  double wait_seconds = 0.0;     ///< until samples were on the device that had not come there in time
  double read_seconds = 0.0;     ///< in which samples were read, while others were computed
  double stage_seconds = 0.0;    ///< in which they were brought to the device, likewise
  double staged_bytes = 0.0;     ///< copied for it
  double exchange_seconds = 0.0; ///< in the layer loop, where neurons are split across ranks
  double exchange_bytes = 0.0;   ///< received for it
  double record_seconds = 0.0;   ///< in which finished batches were kept, while others were computed
  double busy_seconds = 0.0;     ///< from taking each batch until all it gave was known
  double live_edges = 0.0;
  double weight_wait_seconds = 0.0; ///< until weights that are streamed to the device had arrived
  double weight_copy_seconds = 0.0; ///< in which they were copied, while the device computed
  double weight_make_seconds = 0.0; ///< in which they were read and packed again, likewise
  double weight_bytes = 0.0;        ///< that were copied
};

/// On rank 0: the times of all ranks, in rank order; elsewhere none. Collective.
std::vector<RankTimes> gather(Communicator const& communicator, RankTimes const& times);

/// Called after each batch; false: take no other. Where all ranks take each batch together, all must get one answer.
using GoesOn = std::function<bool()>;

/// Runs this rank's batches of the queue, each in parts of at most `batch` samples, and keeps what they gave in the
/// store. While one runs, the samples of the next are brought to the device, those of the one behind it are read, and
/// the batch before is kept, by a thread each. Whatever is thrown, the queue is stopped, so that the others end as
/// well.
RankTimes run_batches(Inference& inference, SampleReader& samples, BatchQueue& queue, BatchStore& store,
                      std::size_t batch, WantedOutputs wanted, GoesOn const& goes_on);

} // namespace varve
