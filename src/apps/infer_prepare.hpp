#pragma once

#include "apps/infer_job.hpp"
#include "distribute/batch_queue.hpp"

#include <memory>

namespace varve {

/// A prepared network, its plan, and the rules for its batches.
struct Prepared {
  BatchRules rules;
  std::unique_ptr<Inference> inference;
  Plan plan;
};

/// Prepares the network on all ranks: whole layers on each rank, or a part of each layer (--split neurons, or if whole
/// layers exceed the memory of a rank).
Prepared prepare_job(InferJob& job);

} // namespace varve
