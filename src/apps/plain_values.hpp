#pragma once

#include "apps/cli_types.hpp"

#include <span>

namespace varve {

/// Gives all options of a command and of its subcommands, which must be declared by now, the rules that CLI11 lacks: a
/// whole number consists of decimal digits only and fits its type (CLI11 takes 010 as octal, caps what is too large and
/// wraps what is negative); a name or a text is not empty (an empty one, from an unset variable of a script, would
/// count as not given). Parsing throws CLI::ValidationError where a value breaks them.
void require_plain_values(CLI::App& command);

/// Throws UsageError if an argument is an option with nothing behind the equals sign ("--truth="), for which CLI11
/// would take the next argument.
void require_values_behind_equals(std::span<char* const> arguments);

} // namespace varve
