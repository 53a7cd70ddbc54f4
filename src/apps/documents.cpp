#include "apps/command_line.hpp"

#include "core/error.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <string_view>
#include <vector>

namespace varve {
namespace {

/// Calls work(path, command) for a command and, before the next one, all below it; a path is "varve generate images".
void for_each_command(CLI::App const& command, std::string const& path,
                      std::function<void(std::string const&, CLI::App const&)> const& work) {
  work(path, command);
  for (auto const* const next : command.get_subcommands([](CLI::App const*) { return true; }))
    for_each_command(*next, path + " " + next->get_name(), work);
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
  std::vector<std::string> values;
  auto const type = option.get_type_name();
  auto const first = type.find('{');
  auto const last = type.find('}', first);
  if (first == std::string::npos || last == std::string::npos) return values;
  for (std::size_t begin = first + 1; begin <= last;) {
    auto const end = std::min(type.find(',', begin), last);
    values.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return values;
}

std::string join(std::vector<std::string> const& words, char const* between) {
  return fmt::format("{}", fmt::join(words, between));
}

/// Text for man: no line begins with a control character, and hyphens can be copied.
std::string escaped(std::string_view text) {
  std::string result;
  bool begins_line = true;
  for (char const letter : text) {
    if (begins_line && (letter == '.' || letter == '\'')) result += "\\&";
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else {
      result += letter;
    }
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
  auto const names = option.get_positional() ? option.get_name(true) : join(words_of(option), ", ");
  auto text = fmt::format(".TP\n\\fB{}\\fR", escaped(names));
  if (!option.get_positional() && takes_value(option))
    text += fmt::format(" \\fI{}\\fR", escaped(option.get_type_name()));
  text += fmt::format("\n{}", escaped(option.get_description()));
  if (!option.get_default_str().empty()) text += fmt::format(" (default: {})", escaped(option.get_default_str()));
  if (option.get_required()) text += " (required)";
  return text + "\n";
}

std::string man_section(std::string const& path, CLI::App const& command) {
  auto text = fmt::format(".SH \"{}\"\n{}\n", upper(path), escaped(command.get_description()));
  for (auto const* const option : command.get_options()) text += man_entry(*option);
  if (!command.get_footer().empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", escaped(command.get_footer()));
  return text;
}

/// The words that may follow a command. Where it takes files by their place, options are offered only behind a hyphen.
std::string completion_cases(std::string const& path, CLI::App const& command) {
  bool takes_files = false;
  std::vector<std::string> words;
  for (auto const* const next : command.get_subcommands([](CLI::App const*) { return true; }))
    words.push_back(next->get_name());
  for (auto const* const option : command.get_options()) {
    takes_files = takes_files || option->get_positional();
    for (auto const& word : words_of(*option)) words.push_back(word);
  }
  return fmt::format("    \"{}\") words=\"{}\"{} ;;\n", path, join(words, " "), takes_files ? "; takes_files=yes" : "");
}

std::string value_cases(std::string const& path, CLI::App const& command) {
  std::string text;
  for (auto const* const option : command.get_options()) {
    if (option->get_positional() || !takes_value(*option)) continue;
    for (auto const& word : words_of(*option)) {
      text +=
          fmt::format("    \"{} {}\") words=\"{}\"; takes_value=yes ;;\n", path, word, join(values_of(*option), " "));
    }
  }
  return text;
}

/// The manual page varve(1), in the macros of man.
std::string man_page(CLI::App const& command_line, std::string const& version) {
  auto text = fmt::format(".TH VARVE 1 \"\" \"varve {}\" \"User Commands\"\n", escaped(version));
  text += fmt::format(".SH NAME\nvarve \\- {}\n", escaped(command_line.get_description()));
  text += ".SH SYNOPSIS\n.B varve\n\\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH COMMANDS\n";
  for (auto const* const command : command_line.get_subcommands([](CLI::App const*) { return true; }))
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(command->get_name()), escaped(command->get_description()));
  for_each_command(command_line, "varve",
                   [&](std::string const& path, CLI::App const& command) { text += man_section(path, command); });
  return text;
}

/// A script that completes in bash.
std::string bash_completion(CLI::App const& command_line) {
  std::string words, values;
  std::vector<std::string> paths;
  for_each_command(command_line, "varve", [&](std::string const& path, CLI::App const& command) {
    words += completion_cases(path, command);
    values += value_cases(path, command);
    if (path != "varve") paths.push_back("\"" + path + "\"");
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
                     join(paths, "|"), values, words);
}

} // namespace

std::string document(std::string const& kind, CLI::App const& command_line, std::string const& version) {
  if (kind == "man") return man_page(command_line, version);
  if (kind == "bash") return bash_completion(command_line);
  throw UsageError("there is no document '" + kind + "'; there are: man, bash");
}

} // namespace varve
