#pragma once

#include "apps/cli_types.hpp"

#include <string>

namespace varve {

/// The error sentence for a command line that could not be parsed. If the command line contains an unknown word, the
/// sentence names that word and the nearest known one, rather than an option that is missing because of it.
std::string explain(CLI::App const& command_line, CLI::ParseError const& error);

} // namespace varve
