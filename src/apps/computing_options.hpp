#pragma once

#include "apps/cli_types.hpp"
#include "apps/report.hpp"
#include "engine/inference.hpp"
#include "library/engine_options.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace varve {

/// How a network is computed: options that several commands share, as given by the user.
struct ComputingOptions {
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  NamedOptions named;
  std::optional<std::size_t> batch;
};

/// Adds --backend, --precision and the options of the arithmetic. `condition`: what the help says before each, such as
/// "with --plan: ".
void add_computing_options(CLI::App& command, ComputingOptions& options, std::string const& condition = "");

/// Adds the engine's options of this kind but for the one named `except`.
void add_engine_options(CLI::App& command, ComputingOptions& options, OptionKind kind, std::string const& except = "",
                        std::string const& condition = "");

/// Adds --batch.
void add_batch(CLI::App& command, ComputingOptions& options);

/// Adds precision and the engine's options to a report or record, by their keys.
void add_options(Json& report, ComputingOptions const& options);

/// Converts the options to those of the engine. Throws UsageError about an unknown name.
InferenceOptions engine_options(ComputingOptions const& options);

/// The precision that an option accepts by this name.
Precision precision_of(std::string const& name);

} // namespace varve
