#pragma once

#include "apps/cli_types.hpp"

#include <string>
#include <vector>

namespace varve {

/// Lets --help of a command and its subcommands show the options without a group, and --help-all all of them.
void add_help(CLI::App& command_line);

/// Puts options of a command into a group of this title.
void group_options(CLI::App& command, std::string const& title, std::vector<std::string> const& names);

/// The error sentence for a command line that could not be parsed. If the command line contains an unknown word, the
/// sentence names that word and the nearest known one, rather than an option that is missing because of it.
std::string explain(CLI::App const& command_line, CLI::ParseError const& error);

} // namespace varve
