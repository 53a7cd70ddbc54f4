#pragma once

#include "apps/cli_types.hpp"
#include "radixnet/network.hpp"

#include <optional>
#include <string>

namespace varve {

/// Options for the initial weights and activations of networks that are to be trained.
struct InitialOptions {
  std::optional<std::string> init;       ///< "he" or "identity"
  std::optional<std::string> activation; ///< name (as in network files) of the activation of all but the last layer
  std::optional<std::string> last_activation; ///< name of the activation of the last layer
  double slope = 0.01;                        ///< slope of leaky ReLUs below zero
  double cap = 1.0;                           ///< cap of clipped ReLUs
};

/// The defaults of both activation options, as the help shows them.
struct InitialDefaults {
  std::string activation;
  std::string last_activation;
};

/// Adds --init, --activation, --last-activation and --slope. Returns --init.
CLI::Option* add_initial_options(CLI::App& command, InitialOptions& options, InitialDefaults const& defaults);

/// The recipe of these options. Throws UsageError if they contradict each other or a number is out of range.
InitialRecipe recipe_of(InitialOptions const& options, std::uint64_t seed);

} // namespace varve
