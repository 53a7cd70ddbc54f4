#pragma once

#include "io/file_roles.hpp"
#include "io/progress.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace varve {

/// What a subcommand does once its options are parsed; returns the exit code (0 fine, 1 truth differs) or throws.
using Action = std::function<int()>;

/// Each adds one subcommand with its options to the command line and sets `action` when it is the one called.
void add_infer(CLI::App& command_line, Action& action);
void add_generate(CLI::App& command_line, Action& action);
void add_convert(CLI::App& command_line, Action& action);
void add_info(CLI::App& command_line, Action& action);
void add_tune(CLI::App& command_line, Action& action);
void add_verify(CLI::App& command_line, Action& action);

/// Throws what FileRoles::require_sound does, removes what killed runs have left of the outputs, and names on standard
/// error what it must leave. Call before anything is read or written.
void check_files(FileRoles const& files);

/// For options that take a number above 0.
CLI::Validator above_zero();

/// A bar on standard error that names what is going on, if that is a terminal; else nothing.
Progress terminal_progress(std::string const& what);

/// "12.3 MB", "4.56 TB": three digits and a decimal prefix.
std::string with_prefix(double number, std::string const& unit);

/// Readable seconds: "12.3 ms", "4.56 s".
std::string readable_seconds(double seconds);

} // namespace varve
