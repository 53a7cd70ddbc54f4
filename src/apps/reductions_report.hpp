#pragma once

#include "engine/inference.hpp"

#include <nlohmann/json.hpp>

namespace varve {

/// What rewriting a network found, for reports.
nlohmann::ordered_json describe(ReductionReport const& found);

/// What all reductions found, for reports; empty if nothing was looked for, or nothing found.
nlohmann::ordered_json describe_reductions(PlanSummary const& plan);

/// Prints the same in a line or two.
void print_reductions(nlohmann::ordered_json const& found);

} // namespace varve
