#pragma once

#include "apps/options.hpp"
#include "apps/report.hpp"
#include "core/runtime.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace varve {

inline constexpr int stopped_by_signal = 5; ///< exit code of a run that can be continued

/// Says on standard error that a signal stopped `what` after `done` of `all` parts, and returns the exit code of that.
int say_stopped(bool speaks, char const* what, std::uint64_t done, std::uint64_t all, char const* parts,
                std::string const& journal);

/// A subcommand whose options have been parsed.
struct Action {
  std::function<int()> run; ///< returns the exit code (0 success, 1 results differ from the truth) or throws
  bool uses_devices = true; ///< false: Kokkos need not be started, so that it runs on machines without the build's GPU
  bool is_parallel = false; ///< several ranks may share the work
};

/// Adds a subcommand to `parent` that sets `action` to run(options), which returns the exit code, if it is called.
/// Returns the subcommand and its options, which live as long as it does.
template <class Options, class Run>
std::pair<CLI::App&, Options&> add_command(CLI::App& parent, Action& action, std::string const& name,
                                           std::string const& about, Run run, bool uses_devices = true,
                                           bool is_parallel = false) {
  auto* const command = parent.add_subcommand(name, about);
  auto const options = std::make_shared<Options>();
  command->callback([=, &action] { action = {[=] { return run(*options); }, uses_devices, is_parallel}; });
  return {*command, *options};
}

/// Each function adds one subcommand with its options to the command line; if that subcommand is called, it sets
/// `action`.
void add_infer(CLI::App& command_line, Action& action);
void add_generate(CLI::App& command_line, Action& action);
void add_convert(CLI::App& command_line, Action& action);
void add_info(CLI::App& command_line, Action& action);
void add_train(CLI::App& command_line, Action& action);
void add_verify(CLI::App& command_line, Action& action);
void add_audit(CLI::App& command_line, Action& action);
void add_evaluate(CLI::App& command_line, Action& action);
void add_benchmark(CLI::App& command_line, Action& action);
void add_multiply(CLI::App& command_line, Action& action);

/// All of them, in the order of help.
inline constexpr std::array all_commands = {add_infer,  add_generate, add_convert,  add_info,      add_train,
                                            add_verify, add_audit,    add_evaluate, add_benchmark, add_multiply};

} // namespace varve
