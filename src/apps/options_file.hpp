#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <string>

namespace varve {

/// Adds the option --options FILE: defaults for the other options of a subcommand, from the object `options` of a JSON
/// file as `varve tune` writes it. What the command line says wins. Parsing throws InputError, naming the file, if it
/// cannot be read, or names an option that the subcommand lacks or a value that this does not take.
void add_options_file(CLI::App& command, std::string& path);

/// All that such a file holds. Throws InputError, naming it, if it cannot be read or has no object `options`.
nlohmann::ordered_json read_options_file(std::string const& path);

} // namespace varve
