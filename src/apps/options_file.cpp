#include "apps/options_file.hpp"

#include "core/error.hpp"
#include "io/input_files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

/// As it would stand on the command line.
std::string text_of(Json const& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// For options that the command line left open.
void take_defaults(CLI::App& command, std::string const& path) {
  Json const options = read_options_file(path)["options"]; // lives as long as the loop over it
  for (auto const& [name, value] : options.items()) {
    auto* const option = command.get_option_no_throw("--" + name);
    if (option == nullptr)
      throw InputError(fmt::format("{} names the option '{}', which varve {} lacks", path, name, command.get_name()));
    if (option->count() > 0) continue;
    try {
      option->add_result(text_of(value));
      option->run_callback();
    } catch (CLI::ParseError const& error) {
      throw InputError(fmt::format("{}, option '{}': {}", path, name, error.what()));
    }
  }
}

} // namespace

void add_options_file(CLI::App& command, std::string& path) {
  command.add_option("--options", path, "JSON of varve tune: defaults for the other options");
  command.parse_complete_callback([&path, &command] {
    if (!path.empty()) take_defaults(command, path);
  });
}

nlohmann::ordered_json read_options_file(std::string const& path) {
  std::ifstream file(readable_place(path));
  if (!file) throw InputError(fmt::format("{} cannot be opened for reading", path));
  Json contents = Json::parse(file, nullptr, false);
  if (contents.is_discarded()) throw InputError(fmt::format("{} is no JSON", path));
  if (!contents.is_object() || !contents.contains("options") || !contents["options"].is_object())
    throw InputError(fmt::format("{} lacks the object 'options', which varve tune writes", path));
  return contents;
}

} // namespace varve
