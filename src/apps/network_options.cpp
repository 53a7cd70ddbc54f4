#include "apps/network_options.hpp"

#include "apps/standard_streams.hpp"
#include "io/layer_list.hpp"
#include "network/activation.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace varve {

void add_network_options(CLI::App& command, ChallengeOptions& options) {
  std::vector<std::string> names;
  for (auto const& entry : all_activations) names.emplace_back(entry.name);
  command.add_option("--neurons", options.neurons, "neurons per layer, for a network in text");
  command.add_option("--layers", options.layers, "number of layers to use, for a network in text");
  command.add_option("--bias", options.bias,
                     "bias of every neuron, for a network in text or matrices (default there: 0)");
  command.add_option("--cap", options.cap, "cap of the clipped ReLU, for a network in text or matrices");
  command
      .add_option("--activation", options.activation,
                  "activation of every layer, for matrices of other programs (NumPy, SciPy, Matrix Market, binsparse)")
      ->check(CLI::IsMember(names));
  command.add_option("--slope", options.slope, "slope of the leaky ReLU, for matrices of other programs");
  command.add_flag("--transpose-weights", options.transposes_weights,
                   "the rows of the matrices of other programs are inputs (default: outputs)");
}

void note_orientation(NetworkSource const& network) {
  if (auto const note = orientation_note(network); !note.empty()) say("varve: " + note);
}

} // namespace varve
