#pragma once

#include "io/challenge.hpp"

#include <CLI/CLI.hpp>

namespace varve {

/// What a network in text does not say; the challenge's own folders fill it in themselves.
inline void add_network_options(CLI::App& command, ChallengeOptions& options) {
  command.add_option("--neurons", options.neurons, "neurons per layer of a network in text");
  command.add_option("--layers", options.layers, "layers to use of a network in text");
  command.add_option("--bias", options.bias, "bias of every neuron of a network in text");
  command.add_option("--cap", options.cap, "cap of the clipped ReLU of a network in text");
}

} // namespace varve
