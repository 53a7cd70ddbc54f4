#pragma once

#include "engine/inference.hpp"

#include <nlohmann/json.hpp>

namespace varve {

/// What rewriting a network found, for reports.
nlohmann::ordered_json describe(ReductionReport const& found);

/// What all reductions found, for reports; empty if nothing was looked for, or nothing found.
nlohmann::ordered_json describe_reductions(Plan const& plan);

/// True if edges of some layer are in another order than the ascending one.
bool orders_edges(Plan const& plan);

/// What that gains, for reports.
nlohmann::ordered_json as_json(EdgeOrderReport const& order);

/// Prints reductions in a line or two.
void print_reductions(nlohmann::ordered_json const& found);

} // namespace varve
