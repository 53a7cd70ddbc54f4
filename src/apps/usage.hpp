#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace varve {

/// The sentence about a command line that could not be parsed. A word that the command does not know is named, with the
/// nearest word that it does know, rather than what lacks because of it.
std::string explain(CLI::App const& command_line, CLI::ParseError const& error);

} // namespace varve
