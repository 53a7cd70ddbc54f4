#pragma once

#include "engine/inference.hpp"
#include "engine/training.hpp"
#include "training/recipe.hpp"

#include <varve/inference.hpp>
#include <varve/train.hpp>

#include <span>
#include <string>
#include <vector>

namespace varve {

/// An option of the engine that is given by name. Its row is all that the command and the library need of it: parsers,
/// help, reports, records and journals go through the rows.
struct EngineOption {
  char const* name; ///< of the command's option without hyphens before it: "edge-order"
  char const* key;  ///< of its value in reports and records: "edge_order"
  char const*
      journal_key; ///< of its value in journals; null if bits do not depend on it, or if journals have its parts
  std::string v0_3::InferenceOptions::*value;
  void (*set)(InferenceOptions& engine, std::string const& value); ///< throws UsageError that lists the names
  std::vector<std::string> (*names)();                             ///< those that this build takes
  char const* help;
};

/// All of them.
std::span<EngineOption const> engine_options();

/// The options of the engine that a recipe decides; the others have their defaults.
TrainingOptions training_options(Recipe const& recipe);

// What the command, the public headers and Python are asked for, as the engine takes it.
namespace v0_3 {

/// Throws UsageError about an unknown name.
varve::InferenceOptions to_private(InferenceOptions const& options);

/// Throws UsageError if a name is unknown or a number out of its range.
varve::Recipe to_private(Recipe const& recipe);

} // namespace v0_3
} // namespace varve
