#include "apps/plain_values.hpp"

#include "core/error.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

namespace varve {
namespace {

/// Rewrites a whole number without leading zeros, which CLI11 would take for an octal one. Returns a complaint if it is
/// none or does not fit the type.
template <class Integer>
std::string complaint_on_integer(std::string& text) {
  Integer number = 0;
  char const* const end = text.data() + text.size();
  auto const [next, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || next != end) {
    return fmt::format("found '{}', expected a whole number from {} to {} in decimal digits", text,
                       std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max());
  }
  text = fmt::format("{}", number);
  return {};
}

std::string complaint_on_text(std::string& text) {
  if (!text.empty()) return {};
  return "found an empty value, expected a name, a text or a number (leave the option out to go without)";
}

/// The rule for options of this type, as CLI11 names it: "UINT", "FLOAT", "TEXT:{a,b}".
std::string (*rule_for(std::string_view type))(std::string&) {
  if (type.starts_with("UINT")) return complaint_on_integer<std::uint64_t>;
  if (type.starts_with("INT")) return complaint_on_integer<std::int64_t>;
  return complaint_on_text;
}

} // namespace

void require_plain_values(CLI::App& command) {
  for (auto* const option : command.get_options([](CLI::Option*) { return true; })) {
    bool const is_flag = option->get_items_expected_max() == 0;
    // the rule comes before the others of the option, which see what it rewrites
    if (!is_flag) option->transform(CLI::Validator(rule_for(option->get_type_name()), ""));
  }
  for (auto* const subcommand : command.get_subcommands([](CLI::App*) { return true; }))
    require_plain_values(*subcommand);
}

void require_values_behind_equals(std::span<char* const> arguments) {
  for (std::string_view const argument : arguments) {
    if (argument == "--") return; // what follows are no options
    if (!argument.starts_with("--") || argument.find('=') + 1 != argument.size()) continue;
    throw UsageError(
        fmt::format("{} has nothing behind the equals sign; leave the option out to go without", argument));
  }
}

} // namespace varve
