#pragma once

#include "passes/edge_order.hpp"
#include "passes/reduced_network.hpp"
#include "plan/cuts.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Summary of a stream of weights that do not fit on the device.
struct StreamSummary {
  std::size_t num_segments = 0;
  std::size_t num_resident = 0; ///< segments that stay on the device
  std::size_t num_remade = 0;   ///< segments that are read and encoded again each time, because the host lacks memory
  std::size_t num_buffers = 0;
  std::size_t buffer_bytes = 0;
  std::size_t host_bytes = 0; ///< host memory of segments that the host keeps
};

/// The steps that compute a network for an input, in order, and their memory in bytes. The engine executes exactly this
/// plan, and reports print it.
struct Plan {
  std::string engine; ///< name of the engine, such as "varve"
  std::string device;
  std::string method;                        ///< a sentence about other properties than the steps; may be empty
  std::vector<Step> steps;                   ///< steps of Varve's own engine; other engines have none
  std::optional<ReductionReport> reduction;  ///< results of the passes, if they rewrote the network
  std::optional<std::size_t> saturates_from; ///< number of layers after which a saturated sample stays saturated; empty
                                             ///< if saturated samples are not searched
  std::optional<EdgeOrderReport> edge_order; ///< empty if all edges ascend
  std::size_t batch = 0;                     ///< samples at a time
  std::optional<StreamSummary> stream;       ///< empty if weights are not streamed
  std::size_t weight_bytes = 0;              ///< device memory of weights
  std::size_t panel_bytes = 0;
  std::size_t sample_bytes = 0;

  /// Samples of the tiles that the first step reads or writes; 1 if there are no steps.
  std::size_t tile_samples() const { return steps.empty() ? 1 : steps.front().choice.tile_samples; }
};

/// Neighbouring steps with the same kernel and format.
struct StepRun {
  std::size_t num_launches = 0;
  Step step; ///< the first step of the run; its layers and numbers are those of the whole run
};

/// Joins neighbouring steps with the same kernel and format.
std::vector<StepRun> runs_of(std::vector<Step> const& steps);

/// "layers 0-119: fused kernel, pattern blocks of 4 outputs, 16-bit indices, 8 launches".
std::string to_text(StepRun const& run);

/// The reasons for the choice, in a sentence or two.
std::string explain(StepRun const& run);

/// One line for each run of steps, then lines about the method and streamed weights, if any.
std::vector<std::string> to_text(Plan const& plan);

/// "weights streamed: 24 segments through 2 buffers of 64.0 MiB, ...".
std::string to_text(StreamSummary const& stream);

/// "edges of 12 layers ordered against bank conflicts: 1.05 wavefronts a step, ...". The report must be about at least
/// one layer.
std::string to_text(EdgeOrderReport const& order);

/// Steps, memory and streams with all their numbers, for reports.
nlohmann::ordered_json to_json(Plan const& plan);
nlohmann::ordered_json to_json(StepRun const& run);

} // namespace varve
