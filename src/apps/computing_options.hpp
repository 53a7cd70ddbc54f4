#pragma once

#include "apps/cli_types.hpp"
#include "engine/inference.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// How a network is computed: options that several commands share, as given by the user.
struct ComputingOptions {
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  std::string reductions = "auto";
  std::string edge_order = "balanced";
  std::string formats = "auto";
  std::optional<std::string> kernel;
  std::optional<std::size_t> batch;
};

/// Adds the options of these names ("--backend"), with one help text, type and group for all commands. `condition`:
/// what the help says before it, such as "with --plan: ".
void add_computing_options(CLI::App& command, ComputingOptions& options, std::vector<std::string> const& names,
                           std::string const& condition = "");

/// Converts the options to those of the engine. Throws UsageError about an unknown name.
InferenceOptions engine_options(ComputingOptions const& options);

/// The precision that an option accepts by this name.
Precision precision_of(std::string const& name);

} // namespace varve
