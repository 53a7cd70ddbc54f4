#pragma once

#include "apps/benchmark_contender.hpp"
#include "engine/ceilings.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <vector>

namespace varve {

/// What a step of the plan did in a traced run.
struct StepMeasurement {
  Step step;
  double seconds = 0.0;       ///< the step's kernel
  double other_seconds = 0.0; ///< other launches around it: live samples listed, saturated or equal ones found, moved
  std::size_t num_launches = 0;
  std::size_t num_samples = 0; ///< samples before the step
  double fma = 0.0;            ///< edges times these samples
  double least_bytes = 0.0;    ///< stored weights once, activations before and after the step once
  double gathered_bytes = 0.0; ///< an activation for each edge and sample

  double fma_share = 0.0;    ///< parts of what the device reaches at most (Ceilings), 1 being all of it
  double copy_share = 0.0;   ///< of least_bytes in the step's time
  double gather_share = 0.0; ///< of gathered_bytes; above 1 where a load serves several outputs of a block
  double launch_share = 0.0; ///< part of the time that so many empty launches take
};

/// The steps of a traced run with their launches, in order: as many as ran. `widths`: inputs of the network, then the
/// outputs of each layer, as the plan sees them (after reductions). Throws ResourceError if the launches are not those
/// of the plan.
std::vector<StepMeasurement> measure_steps(TracedRun const& traced, std::vector<std::size_t> const& widths,
                                           Precision precision, Ceilings const& ceilings);

/// Inputs of the network, then outputs of each layer, after the reductions that rewrite it.
std::vector<std::size_t> widths_of(NetworkSource const& network, Reductions const& reductions);

nlohmann::ordered_json as_json(StepMeasurement const& measured);
nlohmann::ordered_json as_json(Ceilings const& ceilings);

/// Prints the steps that took longest, at most `most`, and the sum of all.
void print_steps(std::vector<StepMeasurement> const& steps, std::size_t most);

} // namespace varve
