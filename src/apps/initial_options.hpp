#pragma once

#include "radixnet/initial_network.hpp"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace varve {

/// The options of networks that are to be trained.
struct InitialOptions {
  std::optional<std::string> init;            ///< "he" or "identity"
  std::optional<std::string> activation;      ///< of all layers but the last, by the names of network files
  std::optional<std::string> last_activation; ///< of the last layer
  double slope = 0.01;                        ///< of leaky ReLUs
  double cap = 1.0;                           ///< of clipped ReLUs
};

/// What the help says of activations for which no option is given.
struct InitialDefaults {
  std::string activation;
  std::string last_activation;
};

/// Adds --init, --activation, --last-activation and --slope. Returns --init.
CLI::Option* add_initial_options(CLI::App& command, InitialOptions& options, InitialDefaults const& defaults);

/// The recipe that the options ask for. Throws UsageError if they contradict each other or a number is out of range.
InitialRecipe recipe_of(InitialOptions const& options, std::uint64_t seed);

} // namespace varve
