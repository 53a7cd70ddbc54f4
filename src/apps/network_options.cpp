#include "apps/network_options.hpp"

#include "apps/usage.hpp"

#include <CLI/CLI.hpp>

namespace varve {

void add_network_options(CLI::App& command, ChallengeOptions& options) {
  command.add_option("--neurons", options.neurons, "neurons per layer, for a network in text");
  command.add_option("--layers", options.layers, "number of layers to use, for a network in text");
  command.add_option("--bias", options.bias, "bias of every neuron, for a network in text");
  command.add_option("--cap", options.cap, "cap of the clipped ReLU, for a network in text");
  group_options(command, "Networks in text", {"--neurons", "--layers", "--bias", "--cap"});
}

} // namespace varve
