#include "apps/options_file.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/runtime.hpp"
#include "io/byte_stream.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/text_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace varve {
namespace {

/// Reads as much of a file as parse_json accepts, and one byte more if the file is longer.
std::string read_start(std::string const& path) {
  auto const source = open_bytes(path);
  std::string text(longest_json + 1, '\0');
  text.resize(source->read(text));
  return text;
}

/// The value as text, as it would stand on the command line.
std::string text_of(Json const& value) { return value.is_string() ? value.get<std::string>() : json_text(value); }

/// Throws InputError unless the type of a JSON value fits the option: options that take numbers accept no text.
void require_value(CLI::Option const& option, Json const& value, std::string const& place) {
  auto const type = option.get_type_name();
  bool const takes_number = type.starts_with("FLOAT") || type.starts_with("UINT") || type.starts_with("INT");
  bool const fits = takes_number ? value.is_number() : value.is_string() || value.is_number() || value.is_boolean();
  if (fits && value.is_string() && value.get_ref<std::string const&>().find('\0') != std::string::npos)
    fail_at(place, quote(value.get_ref<std::string const&>()), "a text without NUL characters");
  if (fits) return;
  fail_at(place, quote(json_text(value)), takes_number ? "a number" : "a text, a number, true or false");
}

/// Sets the options that the command line did not give, but none of `refused`.
void take_defaults(CLI::App& command, std::string const& path, std::vector<std::string> const& refused) {
  Json const options = read_options_file(path)["options"]; // must outlive the loop
  for (auto const& [name, value] : options.items()) {
    auto* const option = command.get_option_no_throw("--" + name);
    if (option == nullptr)
      throw InputError(fmt::format("{} names the option '{}', which varve {} lacks", path, name, command.get_name()));
    if (std::ranges::find(refused, option->get_name()) != refused.end())
      throw InputError(fmt::format("{} names the option '{}', which only the command line takes", path, name));
    require_value(*option, value, fmt::format("{}, option '{}'", path, name));
    if (option->count() > 0) continue;
    try {
      option->add_result(text_of(value));
      option->run_callback();
    } catch (CLI::ParseError const& error) {
      throw InputError(fmt::format("{}, option '{}': {}", path, name, error.what()));
    }
  }
}

/// The sentence on one difference. Checksums of networks are not shown, because they tell a reader nothing.
std::string sentence_on(std::string const& name, std::string const& there, std::string const& here) {
  if (name == "network_checksum") return "was tuned for another network: run varve tune for this one";
  return fmt::format("was tuned for the {} {}, found {}: run varve tune for this one", name, there, here);
}

} // namespace

void add_options_file(CLI::App& command, std::string& path, std::vector<std::string> refused) {
  OptionGroup(command, "More files")
      .add("--options", path, "JSON file written by varve tune: defaults for the other options");
  refused.insert(refused.end(), {"--help", "--options"}); // help would end the run with success
  command.parse_complete_callback([&path, &command, refused] {
    if (!path.empty()) take_defaults(command, path, refused);
  });
}

Json read_options_file(std::string const& path) {
  auto contents = parse_json(read_start(path), path);
  if (contents.is_discarded()) throw InputError(fmt::format("{} is not JSON", path));
  if (!contents.is_object() || !contents.contains("options") || !contents["options"].is_object())
    throw InputError(fmt::format("{} lacks the object 'options', which varve tune writes", path));
  return contents;
}

Json describe_tuning_target(std::string const& network, ChallengeOptions const& challenge,
                            InferenceOptions const& engine) {
  auto const device = device_name(engine.backend);
  Json target = {{"network_checksum", fmt::format("{:016x}", network_checksum(network, challenge))},
                 {"backend", to_string(engine.backend)},
                 {"device", device.substr(0, device.find(" (device "))}};
  if (!has_own_memory(engine.backend)) target["processor"] = processor_name();
  target["precision"] = engine.precision == Precision::double_precision ? "double" : "float";
  return target;
}

std::vector<std::string> tuning_differences(Json const& tuning, Json const& here) {
  std::vector<std::string> sentences;
  if (!tuning.contains("target") || !tuning["target"].is_object()) return sentences;
  auto const& there = tuning["target"];
  for (auto const& [name, value] : here.items()) {
    if (!there.contains(name) || there[name] == value) continue;
    auto const& other = there[name];
    sentences.push_back(sentence_on(name, other.is_string() ? other.get<std::string>() : json_text(other), value));
  }
  return sentences;
}

} // namespace varve
