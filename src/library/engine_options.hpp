#pragma once

#include "engine/inference.hpp"
#include "engine/training.hpp"
#include "training/recipe.hpp"

#include <span>
#include <string>
#include <vector>

namespace varve {

/// Options of the engine that are given by name, with their defaults.
struct NamedOptions {
  std::string engine = "varve", reductions = "auto", edge_order = "balanced", formats = "auto", kernel = "auto";
};

/// One of the named options. Its row is all that the command and the library need of it: parsers, help, reports,
/// records and journals go through the rows.
struct EngineOption {
  char const* name; ///< of the command's option without hyphens before it: "edge-order"
  char const* key;  ///< of its value in reports and records: "edge_order"
  char const*
      journal_key; ///< of its value in journals; null if bits do not depend on it, or if journals have its parts
  std::string NamedOptions::*value;
  void (*set)(InferenceOptions& engine, std::string const& value); ///< throws UsageError that lists the names
  std::vector<std::string> (*names)();                             ///< those that this build takes
  char const* help;
};

/// All of them.
std::span<EngineOption const> engine_options();

/// Sets all of them in the engine's options. Throws UsageError about an unknown name.
void set_named(InferenceOptions& engine, NamedOptions const& named);

/// The parts of a recipe that are given by name, with the defaults of the command.
struct RecipeNames {
  std::string loss = "cross-entropy", optimizer = "momentum", rate_schedule = "cosine", pattern = "keep",
              pattern_schedule = "cosine";
};

/// A recipe completed with what is given by name. Throws UsageError if a name is unknown or a number out of its range.
Recipe complete_recipe(Recipe recipe, RecipeNames const& names);

/// The options of the engine that a recipe decides; the others have their defaults.
TrainingOptions training_options(Recipe const& recipe);

} // namespace varve
