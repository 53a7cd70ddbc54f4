#pragma once

#include "apps/cli_types.hpp"
#include "io/challenge.hpp"
#include "network/network.hpp"

namespace varve {

/// Help texts: what a command takes as a network, and as samples.
inline constexpr char const* network_help =
    "network file (.h5), folder of nN-lK.tsv layer files, ONNX model, matrices of NumPy, SciPy, Matrix Market or "
    "binsparse, or a JSON file that lists layers (src/io/FORMAT.md)";
inline constexpr char const* input_help = "samples: .h5, IDX images, a matrix of NumPy, SciPy, Matrix Market or "
                                          "binsparse, or text `sample neuron value`; IDX, "
                                          "NumPy, Matrix Market and text also .gz, .xz, .zst";

/// Adds options for the properties of a network that text files, or matrices of other programs, do not contain.
/// Networks of the challenge have defaults.
void add_network_options(CLI::App& command, ChallengeOptions& options);

/// Remarks on standard error if nothing says whether the rows of the weights are outputs (orientation_note).
void note_orientation(NetworkSource const& network);

} // namespace varve
