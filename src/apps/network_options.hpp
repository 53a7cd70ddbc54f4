#pragma once

#include "apps/cli_types.hpp"
#include "io/challenge.hpp"

namespace varve {

/// Help texts: what a command takes as a network, and as samples.
inline constexpr char const* network_help =
    "network file (.safetensors) or folder of nN-lK.tsv layer files; varve-convert, of the Python package, makes "
    "network files of ONNX models, HDF5 and others";
inline constexpr char const* input_help =
    "samples: .safetensors, IDX images, Matrix Market, or text `sample neuron value`; all but the first also .gz, .xz, "
    ".zst";

/// Adds options for the properties of a network that text files do not contain. Networks of the challenge have
/// defaults.
void add_network_options(CLI::App& command, ChallengeOptions& options);

} // namespace varve
