#pragma once

#include "apps/infer_job.hpp"
#include "distribute/batch_queue.hpp"

#include <memory>

namespace varve {

/// A network that is ready to run.
struct Prepared {
  BatchRules rules;
  std::unique_ptr<Inference> inference;
  Plan plan;
};

/// Prepares the network on all ranks: whole layers on each, or a part of each layer where the options say so or memory
/// lacks for more.
Prepared prepare_job(InferJob& job);

} // namespace varve
