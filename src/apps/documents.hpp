#pragma once

#include "apps/cli_types.hpp"

#include <string>

/// Documents made from the declared options, so that they cannot differ from --help.
namespace varve {

/// The manual page varve(1), in the macros of man.
std::string man_page(CLI::App const& command_line, std::string const& version);

/// A script that completes commands, options and the values of options that take one of a set, in bash.
std::string bash_completion(CLI::App const& command_line);

/// The document of this kind, "man" or "bash". Throws UsageError that lists them.
std::string document(std::string const& kind, CLI::App const& command_line, std::string const& version);

} // namespace varve
