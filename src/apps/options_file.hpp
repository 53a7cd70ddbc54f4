#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace varve {

/// Takes defaults for options of a subcommand from the object `options` of a JSON file, as `varve tune` writes it: what
/// the command line says wins. Call once the command line is parsed. Throws InputError, naming the file, if it cannot
/// be read, or names an option that the subcommand lacks or a value that this does not take.
void take_defaults(CLI::App& command, std::string const& path);

} // namespace varve
