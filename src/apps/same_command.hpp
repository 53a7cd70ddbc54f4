#pragma once

#include "apps/cli_types.hpp"
#include "distribute/communicator.hpp"

#include <string>

namespace varve {

/// Throws UsageError unless all ranks run the same Varve, and the same command with the same options, but for those
/// that change no output. (Each rank has its own command line.) `answer`: what a rank prints and ends with instead of
/// running a command (help), else empty. Collective.
void require_same_command(Communicator const& communicator, CLI::App const& command_line, std::string const& answer);

} // namespace varve
