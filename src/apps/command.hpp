#pragma once

#include "apps/cli_types.hpp"
#include "io/challenge.hpp"
#include "io/file_roles.hpp"

#include <functional>
#include <string>

namespace varve {

inline constexpr int stopped_by_signal = 5; ///< exit code of a run that can be continued

/// A subcommand whose options have been parsed.
struct Action {
  std::function<int()> run; ///< returns the exit code (0 success, 1 results differ from the truth) or throws
  bool uses_devices = true; ///< false: Kokkos need not be started, so that it runs on machines without the build's GPU
  bool is_parallel = false; ///< several ranks may share the work
};

/// Each function adds one subcommand with its options to the command line; if that subcommand is called, it sets
/// `action`.
void add_infer(CLI::App& command_line, Action& action);
void add_generate(CLI::App& command_line, Action& action);
void add_convert(CLI::App& command_line, Action& action);
void add_info(CLI::App& command_line, Action& action);
void add_train(CLI::App& command_line, Action& action);
void add_tune(CLI::App& command_line, Action& action);
void add_verify(CLI::App& command_line, Action& action);
void add_audit(CLI::App& command_line, Action& action);
void add_evaluate(CLI::App& command_line, Action& action);
void add_benchmark(CLI::App& command_line, Action& action);
void add_multiply(CLI::App& command_line, Action& action);

/// Checks the files of a command (FileRoles::require_sound), removes partial outputs that killed runs left, and reports
/// on standard error those it must keep. Call it before anything is read or written. Throws as require_sound does.
void check_files(FileRoles const& files);

/// A progress bar on standard error, labelled `what`; empty if standard error is not a terminal.
Progress terminal_progress(std::string const& what);

} // namespace varve
