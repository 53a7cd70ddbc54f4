#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace varve {

/// What a JSON text says about a layer: where its weights and biases are, and what it computes with them. Everything
/// that is missing follows from options.
struct LayerDescription {
  std::filesystem::path file; ///< the file with the weights
  std::string member = {};    ///< the tensor or group of that file; empty: the file holds one matrix
  std::variant<std::monostate, double, std::filesystem::path, std::string> bias = {}; ///< one for all outputs, a file
                                                                                      ///< of NumPy, or a part of `file`
  std::string activation = {}; ///< as in network files; empty: unknown
  std::optional<double> cap = std::nullopt;
  std::optional<double> slope = std::nullopt;
  std::optional<bool> transposes = std::nullopt; ///< true: the rows of the weights are inputs
};

/// True if PATH is a file whose first character, after blanks, opens a JSON object. Throws InputError if it cannot be
/// read.
bool is_layer_description(std::filesystem::path const& path);

/// Reads a JSON text of layers (FORMAT.md). Files are relative to the folder of the text. Throws InputError, naming the
/// file and the layer, if it is broken.
std::vector<LayerDescription> read_layer_descriptions(std::filesystem::path const& path);

} // namespace varve
