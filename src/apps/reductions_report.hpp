#pragma once

#include "engine/inference.hpp"

#include <nlohmann/json.hpp>

namespace varve {

/// The effect of rewriting a network, as JSON for reports.
nlohmann::ordered_json describe(ReductionReport const& found);

/// The effect of all reductions, as JSON for reports; empty if none was applied or none had an effect.
nlohmann::ordered_json describe_reductions(Plan const& plan);

/// True if the edges of some layer are not in ascending order.
bool orders_edges(Plan const& plan);

/// The gain from reordering edges, as JSON for reports.
nlohmann::ordered_json as_json(EdgeOrderReport const& order);

/// Prints the effect of reductions in one or two lines.
void print_reductions(nlohmann::ordered_json const& found);

} // namespace varve
