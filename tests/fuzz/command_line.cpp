#include "fuzz/target.hpp"

#include "apps/command.hpp"
#include "apps/command_line.hpp"
#include "apps/options.hpp"
#include "core/error.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace varve::fuzz {
namespace {

/// The arguments of a command line, one a line, without the name of the program, last one first as CLI11 wants them.
std::vector<std::string> arguments_of(std::string_view bytes) {
  std::vector<std::string> arguments;
  while (!bytes.empty()) {
    auto const length = std::min(bytes.find('\n'), bytes.size());
    arguments.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(std::min(length + 1, bytes.size()));
  }
  std::ranges::reverse(arguments);
  return arguments;
}

void parse(CLI::App& command, std::vector<std::string> arguments) {
  try {
    command.parse(arguments);
  } catch (CLI::Success const&) { // help or version
  } catch (CLI::ParseError const& error) {
    throw UsageError(error.what());
  }
}

} // namespace

/// A command line, parsed by all subcommands and not run; for `varve infer`, up to what the engine is told.
VARVE_FUZZ_TARGET(command_line) {
  auto arguments = arguments_of(bytes);
  CLI::App command_line("", "varve");
  command_line.set_version_flag("--version", "a version");
  command_line.require_subcommand(1);
  Action action;
  add_infer(command_line, action);
  add_generate(command_line, action);
  add_convert(command_line, action);
  add_info(command_line, action);
  add_verify(command_line, action);
  add_audit(command_line, action);
  add_evaluate(command_line, action);
  require_plain_values(command_line);
  parse(command_line, arguments);
  if (arguments.empty() || arguments.back() != "infer") return;
  arguments.pop_back();
  CLI::App infer("", "infer");
  InferOptions options;
  add_infer_options(infer, options);
  require_plain_values(infer);
  parse(infer, arguments);
  engine_options(options);
  parse_samples(options.samples);
}

} // namespace varve::fuzz
