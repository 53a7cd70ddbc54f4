#pragma once

#include "passes/ordered_network.hpp"
#include "passes/reduced_network.hpp"
#include "plan/cuts.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// How weights that do not fit on the device are streamed.
struct StreamSummary {
  std::size_t num_segments = 0;
  std::size_t num_resident = 0; ///< segments that stay on the device
  std::size_t num_remade = 0;   ///< segments that are read and encoded again each time, for the host cannot hold them
  std::size_t num_buffers = 0;
  std::size_t buffer_bytes = 0;
  std::size_t host_bytes = 0; ///< for segments that are kept on the host
};

/// What is done with a network and an input, in the order in which it is done; sizes in bytes. The engine carries it
/// out as it is, and it is printed as it is.
struct Plan {
  std::string engine; ///< which engine, e.g. "varve"
  std::string device;
  std::string method;                        ///< what there is to say besides the steps
  std::vector<Step> steps;                   ///< of Varve's own engine
  std::optional<ReductionReport> reduction;  ///< what rewriting the network found, where it was asked for
  std::optional<std::size_t> saturates_from; ///< layers after which a saturated sample is known to stay so, where that
                                             ///< was asked for and some are
  std::optional<EdgeOrderReport> edge_order; ///< where another order than the ascending one was asked for
  std::size_t batch = 0;                     ///< samples at a time
  std::optional<StreamSummary> stream;       ///< where weights are streamed
  std::size_t weight_bytes = 0;              ///< on the device
  std::size_t panel_bytes = 0;
  std::size_t sample_bytes = 0;

  /// Samples of the tiles that the first step reads or writes; 1 where there are no steps.
  std::size_t tile_samples() const { return steps.empty() ? 1 : steps.front().choice.tile_samples; }
};

/// Neighbouring steps that differ in their layers only.
struct StepRun {
  std::size_t num_launches = 0;
  Step step; ///< the first of them; its layers and numbers are those of all together
};
std::vector<StepRun> runs_of(std::vector<Step> const& steps);

/// "layers 0-119: fused kernel, pattern blocks of 4 outputs, 16-bit indices, 8 launches".
std::string to_text(StepRun const& run);

/// A sentence or two about what of these layers led to the choice.
std::string explain(StepRun const& run);

/// One line for each run of steps, then what there is to say of the method and of streamed weights.
std::vector<std::string> to_text(Plan const& plan);

/// "weights streamed: 24 segments through 2 buffers of 64.0 MiB, ...".
std::string to_text(StreamSummary const& stream);

/// "edges of 12 layers ordered against bank conflicts: 1.05 wavefronts a step, ...", of at least one layer.
std::string to_text(EdgeOrderReport const& order);

/// Steps, memory and streams with all their numbers, for reports.
nlohmann::ordered_json to_json(Plan const& plan);
nlohmann::ordered_json to_json(StepRun const& run);

} // namespace varve
