#include "apps/command_line.hpp"

#include "core/error.hpp"
#include "core/version.hpp"
#include "distribute/ranks.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// Only letters count when looking for the nearest word: "-V", "--Version" and "version" are similar.
std::string letters_of(std::string const& word) {
  std::string letters;
  for (char const letter : word.substr(std::min(word.find_first_not_of('-'), word.size())))
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return letters;
}

/// The number of letters to insert, remove, replace or swap with the next one (optimal string alignment); 0 if `other`
/// begins with `word`.
std::size_t distance_between(std::string const& word, std::string const& other) {
  if (!word.empty() && other.starts_with(word)) return 0;
  std::vector<std::size_t> before_last; // rows of the distances between beginnings of both words
  std::vector<std::size_t> last(other.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= word.size(); ++i) {
    std::vector<std::size_t> row(other.size() + 1, i);
    for (std::size_t j = 1; j <= other.size(); ++j) {
      std::size_t const replaced = last[j - 1] + (word[i - 1] == other[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, row[j - 1] + 1, last[j] + 1});
      bool const is_swapped = i > 1 && j > 1 && word[i - 1] == other[j - 2] && word[i - 2] == other[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, std::move(row));
  }
  return last.back();
}

/// The names of the subcommands and options of a command.
std::vector<std::string> words_of(CLI::App const& command) {
  std::vector<std::string> words;
  for (auto const* const subcommand : command.get_subcommands({})) words.push_back(subcommand->get_name());
  for (auto const* const option : command.get_options({}))
    if (!option->get_lnames().empty()) words.push_back("--" + option->get_lnames().front());
  return words;
}

/// The nearest known word; empty if more than a third of the letters differ for every known word.
std::string nearest(std::string const& unknown, std::vector<std::string> const& words) {
  constexpr std::size_t longest = 64; // longer words are not misspellings
  auto const letters = letters_of(unknown);
  if (letters.size() > longest) return {};
  std::string best;
  std::size_t least = letters.size() / 3 + 1;
  for (auto const& word : words) {
    auto const distance = distance_between(letters, letters_of(word));
    if (distance >= least) continue;
    least = distance;
    best = word;
  }
  return best;
}

/// The first word that the command does not know; empty if it knows all.
std::string unknown_word(CLI::App const& command) {
  for (auto const& word : command.remaining(false))
    if (word != "--") return word;
  return {};
}

std::string about_unknown(CLI::App const& command, std::string const& path, std::string const& word) {
  bool const is_option = word.size() > 1 && word.starts_with('-');
  auto const name = is_option ? word.substr(0, word.find('=')) : word;
  bool const has_subcommands = !command.get_subcommands({}).empty();
  char const* const kind = is_option ? "option" : has_subcommands ? "subcommand" : "further argument";
  auto words = words_of(command);
  if (is_option) std::erase_if(words, [](std::string const& known) { return !known.starts_with('-'); });
  auto const near = nearest(name, words);
  auto const suggestion = near.empty() ? std::string() : fmt::format("; the nearest is {}", near);
  return fmt::format("{} has no {} '{}'{} (try {} --help)", path, kind, name, suggestion, path);
}

/// The command line that names a command: "varve generate images".
std::string path_of(CLI::App const& command) {
  auto const* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : path_of(*parent) + " " + command.get_name();
}

class HelpFormat final : public CLI::Formatter {
public:
  std::string make_help(CLI::App const* command, std::string name, CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return CLI::Formatter::make_help(command, std::move(name), mode);
    bool const is_whole = mode == CLI::AppFormatMode::All;
    return make_description(command) + make_usage(command, path_of(*command)) + make_positionals(command) +
           options_of(*command, is_whole) + make_subcommands(command, mode) + "\n" + make_footer(command);
  }

private:
  std::string options_of(CLI::App const& command, bool is_whole) const {
    std::string text;
    std::string left_out;
    for (auto const& title : command.get_groups()) {
      auto const options = command.get_options(
          [&](CLI::Option const* option) { return option->get_group() == title && option->nonpositional(); });
      if (title.empty() || options.empty()) continue;
      if (is_whole || title == "Options") {
        text += make_group(title, false, options);
      } else {
        left_out += (left_out.empty() ? "" : "; ") + title;
      }
    }
    if (left_out.empty()) return text;
    return text + fmt::format("\nMore options ({} --help-all): {}\n", path_of(command), left_out);
  }
};

std::string complaint_on_text(std::string& text) {
  if (!text.empty()) return {};
  return "found an empty value, expected a name, a text or a number (leave the option out to go without)";
}

/// The rule for options of this type, as CLI11 names it: "UINT", "FLOAT", "TEXT:{a,b}".
std::string (*rule_for(std::string_view type))(std::string&) {
  if (type.starts_with("UINT")) return complaint_on_whole_number;
  return complaint_on_text;
}

/// Options, and keys of --tuning, that change no output: unlike machines may need them to differ.
constexpr std::array<std::string_view, 3> free_options = {"--backend", "--recompute", "--memory"};
constexpr std::array<std::string_view, 3> free_keys = {"formats", "kernel", "micro-batch"};

bool is_free(CLI::Option const& option) {
  return std::ranges::find(free_options, option.get_name()) != free_options.end();
}

/// The value of an option as text: the one given, else the default.
std::string value_of(CLI::Option const& option) {
  std::string text = option.empty() ? option.get_default_str() : "";
  bool is_key_free = false; // that of the parts without a key
  for (auto const& part : option.results()) {
    auto const key = part.substr(0, part.find('='));
    if (key != part) is_key_free = std::ranges::find(free_keys, key) != free_keys.end();
    if (!is_key_free) text += (text.empty() ? "" : " ") + part;
  }
  return text.empty() ? "not given" : text;
}

} // namespace

void add_help(CLI::App& command_line) {
  command_line.formatter(std::make_shared<HelpFormat>());
  command_line.set_help_all_flag("--help-all", "Print help with all options and exit");
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  char const* const end = text.data() + text.size();
  auto const [next, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && next == end ? std::optional(number) : std::nullopt;
}

std::string complaint_on_whole_number(std::string& text) {
  auto const number = whole_number(text);
  if (!number)
    return fmt::format("found '{}', expected a whole number from 0 to {} in decimal digits", text,
                       std::numeric_limits<std::uint64_t>::max());
  text = fmt::format("{}", *number);
  return {};
}

std::string explain(CLI::App const& command_line, CLI::ParseError const& error) {
  CLI::App const* command = &command_line;
  std::string path = command_line.get_name();
  while (true) {
    if (auto const word = unknown_word(*command); !word.empty()) return about_unknown(*command, path, word);
    auto const called = command->get_subcommands();
    if (called.empty()) break;
    command = called.front();
    path += " " + command->get_name();
  }
  return fmt::format("{} (try {} --help)", error.what(), path);
}

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
                    fmt::format("only {}some keys of --tuning ({}) and options of Kokkos may differ", free_ones,
                                fmt::join(free_keys, ", ")));
}

} // namespace varve
