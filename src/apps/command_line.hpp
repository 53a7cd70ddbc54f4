#pragma once

#include "distribute/communicator.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace varve {

/// Lets --help of a command and its subcommands show the options without a group, and --help-all all of them.
void add_help(CLI::App& command_line);

/// The error sentence for a command line that could not be parsed. If the command line contains an unknown word, the
/// sentence names that word and the nearest known one, rather than an option that is missing because of it.
std::string explain(CLI::App const& command_line, CLI::ParseError const& error);

/// The whole number that a text of decimal digits is; nullopt if it is none or does not fit 64 bits.
std::optional<std::uint64_t> whole_number(std::string_view text);

/// Rewrites a whole number without leading zeros, which CLI11 would take for an octal one. Returns a complaint if it is
/// none or does not fit 64 bits, else an empty text.
std::string complaint_on_whole_number(std::string& text);

/// Gives all options of a command and of its subcommands, which must be declared by now, the rules that CLI11 lacks: a
/// whole number consists of decimal digits only and fits its type (CLI11 takes 010 as octal, caps what is too large and
/// wraps what is negative); a name or a text is not empty (an empty one, from an unset variable of a script, would
/// count as not given). Parsing throws CLI::ValidationError where a value breaks them.
void require_plain_values(CLI::App& command);

/// Throws UsageError if an argument is an option with nothing behind the equals sign ("--truth="), for which CLI11
/// would take the next argument.
void require_values_behind_equals(std::span<char* const> arguments);

/// Throws UsageError unless all ranks run the same Varve, and the same command with the same options, but for those
/// that change no output. (Each rank has its own command line.) `answer`: what a rank prints and ends with instead of
/// running a command (help), else empty. Collective.
void require_same_command(Communicator const& communicator, CLI::App const& command_line, std::string const& answer);

/// A document made from the declared options, so that it cannot differ from --help: "man", the page varve(1), or
/// "bash", a script that completes commands, options and the values of options that take one of a set. Throws
/// UsageError that lists the kinds.
std::string document(std::string const& kind, CLI::App const& command_line);

} // namespace varve
