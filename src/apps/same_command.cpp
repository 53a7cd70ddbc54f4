#include "apps/same_command.hpp"

#include "core/version.hpp"
#include "distribute/ranks.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace varve {
namespace {

/// Options that change no output: unlike machines may need them to differ.
constexpr std::array<std::string_view, 10> free_options = {"--backend",
                                                           "--formats",
                                                           "--kernel",
                                                           "--recompute",
                                                           "--micro-batch",
                                                           "--memory-limit",
                                                           "--input-memory",
                                                           "--device-memory-limit",
                                                           "--device-weight-limit",
                                                           "--options"};

bool is_free(CLI::Option const& option) {
  return std::ranges::find(free_options, option.get_name()) != free_options.end();
}

/// The value of an option as text: the one given, else the default.
std::string value_of(CLI::Option const& option) {
  auto const text = option.empty() ? option.get_default_str() : fmt::format("{}", fmt::join(option.results(), " "));
  return text.empty() ? "not given" : text;
}

} // namespace

void require_same_command(Communicator const& communicator, CLI::App const& command_line, std::string const& answer) {
  nlohmann::ordered_json mine = {{"the program", fmt::format("{} {}", provenance.version, provenance.git_commit)}};
  std::string free_ones;
  auto const commands = command_line.get_subcommands();
  mine["the command"] = !answer.empty() || commands.empty() ? "--help or --version" : commands.front()->get_name();
  if (answer.empty() && !commands.empty()) {
    for (auto const* const option : commands.front()->get_options()) {
      if (is_free(*option)) {
        free_ones += option->get_name() + ", ";
      } else {
        mine[option->get_name()] = value_of(*option);
      }
    }
  }
  require_agreement(communicator, mine, ErrorKind::usage,
                    fmt::format("only {}and options of Kokkos may differ", free_ones));
}

} // namespace varve
