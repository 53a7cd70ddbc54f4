#include "apps/command_line.hpp"

#include "core/error.hpp"
#include "core/version.hpp"
#include "distribute/ranks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <functional>
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
  return CLI::detail::to_lower(word.substr(std::min(word.find_first_not_of('-'), word.size())));
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

/// The command line that names a command: "varve generate images".
std::string path_of(CLI::App const& command) {
  auto const* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : path_of(*parent) + " " + command.get_name();
}

std::string about_unknown(CLI::App const& command, std::string const& word) {
  bool const is_option = word.size() > 1 && word.starts_with('-');
  auto const name = is_option ? word.substr(0, word.find('=')) : word;
  bool const has_subcommands = !command.get_subcommands({}).empty();
  char const* const kind = is_option ? "option" : has_subcommands ? "subcommand" : "further argument";
  auto words = words_of(command);
  if (is_option) std::erase_if(words, [](std::string const& known) { return !known.starts_with('-'); });
  auto const near = nearest(name, words);
  auto const suggestion = near.empty() ? std::string() : fmt::format("; the nearest is {}", near);
  return fmt::format("{0} has no {1} '{2}'{3} (try {0} --help)", path_of(command), kind, name, suggestion);
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

/// Options, and keys of --tuning, that change no output: unlike machines may need them to differ.
constexpr std::array<std::string_view, 3> free_options = {"--backend", "--recompute", "--memory"};
constexpr std::array<std::string_view, 3> free_keys = {"formats", "kernel", "micro-batch"};

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

/// Calls work(command) for a command and, before the next one, all below it.
void for_each_command(CLI::App const& command, std::function<void(CLI::App const&)> const& work) {
  work(command);
  for (auto const* const next : command.get_subcommands({})) for_each_command(*next, work);
}

/// "--output,-o" as the words "--output" and "-o".
std::vector<std::string> words_of(CLI::Option const& option) {
  std::vector<std::string> words;
  for (auto const& name : option.get_snames()) words.push_back("-" + name);
  for (auto const& name : option.get_lnames()) words.push_back("--" + name);
  return words;
}

bool takes_value(CLI::Option const& option) { return option.get_items_expected_max() > 0; }

/// The values of an option that takes some of a set; CLI11 states the set in the name of the type, as "TEXT:{a,b}".
std::vector<std::string> values_of(CLI::Option const& option) {
  auto const type = option.get_type_name();
  auto const first = type.find('{');
  auto const last = type.find('}', first);
  if (first == std::string::npos || last == std::string::npos) return {};
  return CLI::detail::split(type.substr(first + 1, last - first - 1), ',');
}

/// Text for man: no line begins with a control character, and hyphens can be copied.
std::string escaped(std::string_view text) {
  std::string result;
  bool begins_line = true;
  for (char const letter : text) {
    if (begins_line && (letter == '.' || letter == '\'')) result += "\\&";
    result += letter == '\\' ? "\\e" : letter == '-' ? "\\-" : std::string(1, letter);
    begins_line = letter == '\n';
  }
  return result;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return text;
}

/// The name of an option, its type, and what it says of itself.
std::string man_entry(CLI::Option const& option) {
  auto const names =
      option.get_positional() ? option.get_name(true) : fmt::format("{}", fmt::join(words_of(option), ", "));
  auto text = fmt::format(".TP\n\\fB{}\\fR", escaped(names));
  if (!option.get_positional() && takes_value(option))
    text += fmt::format(" \\fI{}\\fR", escaped(option.get_type_name()));
  text += fmt::format("\n{}", escaped(option.get_description()));
  if (!option.get_default_str().empty()) text += fmt::format(" (default: {})", escaped(option.get_default_str()));
  if (option.get_required()) text += " (required)";
  return text + "\n";
}

std::string man_section(CLI::App const& command) {
  auto text = fmt::format(".SH \"{}\"\n{}\n", upper(path_of(command)), escaped(command.get_description()));
  for (auto const* const option : command.get_options()) text += man_entry(*option);
  if (!command.get_footer().empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", escaped(command.get_footer()));
  return text;
}

/// The words that may follow a command. Where it takes files by their place, options are offered only behind a hyphen.
std::string completion_cases(CLI::App const& command) {
  bool takes_files = false;
  std::vector<std::string> words;
  for (auto const* const next : command.get_subcommands({})) words.push_back(next->get_name());
  for (auto const* const option : command.get_options()) {
    takes_files = takes_files || option->get_positional();
    for (auto const& word : words_of(*option)) words.push_back(word);
  }
  return fmt::format("    \"{}\") words=\"{}\"{} ;;\n", path_of(command), fmt::join(words, " "),
                     takes_files ? "; takes_files=yes" : "");
}

std::string value_cases(CLI::App const& command) {
  std::string text;
  for (auto const* const option : command.get_options()) {
    if (option->get_positional() || !takes_value(*option)) continue;
    for (auto const& word : words_of(*option)) {
      text += fmt::format("    \"{} {}\") words=\"{}\"; takes_value=yes ;;\n", path_of(command), word,
                          fmt::join(values_of(*option), " "));
    }
  }
  return text;
}

/// The manual page varve(1), in the macros of man.
std::string man_page(CLI::App const& command_line) {
  auto text = fmt::format(".TH VARVE 1 \"\" \"varve {}\" \"User Commands\"\n", escaped(provenance.version));
  text += fmt::format(".SH NAME\nvarve \\- {}\n", escaped(command_line.get_description()));
  text += ".SH SYNOPSIS\n.B varve\n\\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH COMMANDS\n";
  for (auto const* const command : command_line.get_subcommands({}))
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(command->get_name()), escaped(command->get_description()));
  for_each_command(command_line, [&](CLI::App const& command) { text += man_section(command); });
  return text;
}

/// A script that completes in bash.
std::string bash_completion(CLI::App const& command_line) {
  std::string words, values;
  std::vector<std::string> paths;
  for_each_command(command_line, [&](CLI::App const& command) {
    words += completion_cases(command);
    values += value_cases(command);
    if (&command != &command_line) paths.push_back(fmt::format("\"{}\"", path_of(command)));
  });
  return fmt::format(R"(# Completion of the command varve in bash, made by `varve --document bash`.
_varve() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local path=varve words="" takes_value="" takes_files="" before="" i
  # --OPTION=VALUE is three words, or one if COMP_WORDBREAKS has no equals sign.
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $previous == "=" ]]; then
    previous="${{COMP_WORDS[COMP_CWORD-2]}}"
  elif [[ $current == --*=* ]]; then
    previous="${{current%%=*}}" before="${{current%%=*}}=" current="${{current#*=}}"
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
      {}) path="$path ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path $previous" in
{}  esac
  if [[ -z $takes_value ]]; then
    case "$path" in
{}    esac
    if [[ $takes_files && $current != -* ]]; then words=""; fi
  fi
  COMPREPLY=($(compgen -P "$before" -W "$words" -- "$current"))
}}
complete -o default -F _varve varve
)",
                     fmt::join(paths, "|"), values, words);
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
  while (true) {
    for (auto const& word : command->remaining(false))
      if (word != "--") return about_unknown(*command, word);
    auto const called = command->get_subcommands();
    if (called.empty()) return fmt::format("{} (try {} --help)", error.what(), path_of(*command));
    command = called.front();
  }
}

void require_plain_values(CLI::App& command) {
  for (auto* const option : command.get_options([](CLI::Option*) { return true; })) {
    if (!takes_value(*option)) continue;
    // CLI11 names types as "UINT", "FLOAT", "TEXT:{a,b}"
    auto* const rule = option->get_type_name().starts_with("UINT") ? complaint_on_whole_number : complaint_on_text;
    option->transform(CLI::Validator(rule, "")); // before the other rules of the option, which see what it rewrites
  }
  for (auto* const subcommand : command.get_subcommands([](CLI::App*) { return true; }))
    require_plain_values(*subcommand);
}

void require_values_behind_equals(std::span<char* const> arguments) {
  for (std::string_view const argument : arguments) {
    if (argument == "--") return; // what follows are no options
    if (!argument.starts_with("--") || argument.find('=') + 1 != argument.size()) continue;
    fail<UsageError>("{} has nothing behind the equals sign; leave the option out to go without", argument);
  }
}

void require_same_command(Communicator const& communicator, CLI::App const& command_line, std::string const& answer) {
  nlohmann::ordered_json mine = {{"the program", fmt::format("{} {}", provenance.version, provenance.git_commit)}};
  std::string free_ones;
  auto const commands = command_line.get_subcommands();
  mine["the command"] = !answer.empty() || commands.empty() ? "--help or --version" : commands.front()->get_name();
  if (answer.empty() && !commands.empty()) {
    for (auto const* const option : commands.front()->get_options()) {
      if (std::ranges::find(free_options, option->get_name()) != free_options.end()) {
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

std::string document(std::string const& kind, CLI::App const& command_line) {
  if (kind == "man") return man_page(command_line);
  if (kind == "bash") return bash_completion(command_line);
  throw UsageError("there is no document '" + kind + "'; there are: man, bash");
}

} // namespace varve
