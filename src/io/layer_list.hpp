#pragma once

#include "io/challenge.hpp"
#include "network/network.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// Networks whose weights are matrices of other programs; see "Networks of other programs" in FORMAT.md.
namespace varve {

/// True if PATH may be such a network: a matrix, a JSON text, or a folder that holds network.json or matrices. Throws
/// InputError if a file cannot be read.
bool is_layer_list(std::filesystem::path const& path);

/// Opens such a network: the layers that a JSON text lists, the matrices of a folder in the order of their names (runs
/// of digits count as numbers), or the matrix or matrices of one file. The options hold what neither a JSON text nor a
/// matrix says. Each layer is read once now, to check it, and again on demand. Throws InputError, naming file and
/// layer, if something is broken or does not fit together; UsageError if the activation is missing, or if an option is
/// invalid or contradicts the files.
std::unique_ptr<NetworkSource> open_layer_list(std::filesystem::path const& path, ChallengeOptions const& options = {});

/// The files that open_layer_list would read. Throws InputError if the list itself is broken.
std::vector<std::filesystem::path> layer_list_files(std::filesystem::path const& path);

/// A sentence that says that nothing tells rows and columns of the weights of such a network apart: no option and no
/// JSON text says which are the outputs, and all layers are square. Empty if that is not so, and for all other
/// networks.
std::string orientation_note(NetworkSource const& network);

} // namespace varve
