#include "apps/options.hpp"

#include "apps/standard_streams.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace varve {
namespace {

/// Validator for numbers that `is_right` accepts; `what` follows "expected a number" in its sentence.
template <class IsRight>
CLI::Validator number_validator(IsRight const& is_right, std::string const& what, std::string const& name) {
  auto const check = [=](std::string const& text) {
    double number = 0.0;
    bool const is_accepted = CLI::detail::lexical_cast(text, number) && is_right(number);
    return is_accepted ? std::string() : fmt::format("found {}, expected a number {}", text, what);
  };
  return CLI::Validator(check, name);
}

/// Accepts all values; help shows the text in the place of the type.
CLI::Validator known_as(std::string const& text) {
  return CLI::Validator([](std::string&) { return std::string(); }, text);
}

EngineOption const& engine_option(std::string const& name) {
  return *std::ranges::find_if(engine_options(), [&](EngineOption const& one) { return one.name == name; });
}

} // namespace

FileRoles CommandFiles::roles() const {
  FileRoles roles;
  for (auto const& file : all_) {
    if (file.content) {
      roles.writes(file.option, *file.path, *file.content);
    } else {
      roles.reads(file.option, *file.path);
    }
  }
  return roles;
}

void CommandFiles::require_writable() const {
  for (auto const& file : all_)
    if (file.content.value_or(Content::journal) != Content::journal && !file.path->empty())
      varve::require_writable(*file.path);
}

std::vector<RankInput> CommandFiles::inputs(ChallengeOptions const& challenge) const {
  std::vector<RankInput> inputs;
  for (auto const& file : all_) {
    if (file.content || file.path->empty()) continue;
    bool const is_network = file.option == "--network";
    inputs.push_back({file.option + " " + *file.path, is_network ? network_files(*file.path, challenge)
                                                                 : std::vector<std::filesystem::path>{*file.path}});
  }
  return inputs;
}

void check_files(FileRoles const& files) {
  files.require_sound();
  for (auto const& left : files.remove_leftovers()) {
    say(fmt::format(
        "varve: {} was left by a run that was killed, or belongs to one that still runs; remove it if none does",
        left.string()));
  }
}

void check_files(FileRoles const& files, Communicator const& ranks) {
  ranks.together([&] {
    files.require_readable_by(static_cast<std::size_t>(ranks.size()));
    if (ranks.is_root()) check_files(files);
  });
}

void resume(RecordStore& store, Communicator const& ranks, std::function<Json()> const& describe,
            RecordStore::RangeOf const& range_of) {
  std::string run;
  ranks.together([&] {
    if (ranks.is_root()) run = json_text(describe());
  });
  run = ranks.broadcast(run);
  ranks.together([&] { store.resume(Json::parse(run), range_of); });
}

AnswerFiles with_own_answers(AnswerFiles files) {
  if (kind_of(files.samples) != FileKind::container) return files;
  auto const header = read_sample_header(files.samples);
  if (files.labels.empty() && header.has_labels) files.labels = files.samples;
  if (files.targets.empty() && header.num_targets) files.targets = files.samples;
  return files;
}

SampleRange range_of(SampleReader const& samples) {
  return {samples.first_sample(), samples.first_sample() + samples.num_samples()};
}

CLI::Validator above_zero() {
  return number_validator([](double number) { return number > 0.0; }, "above 0", "ABOVE 0");
}

CLI::Validator at_least_zero() {
  return number_validator([](double number) { return number >= 0.0; }, "from 0 on", "FROM 0");
}

CLI::Validator known(std::vector<std::string> const& names) {
  return known_as(fmt::format("{{{}}}", fmt::join(names, ",")));
}

OptionKey name_key(std::string const& name, std::string& value, std::vector<std::string> const& names,
                   std::string const& help) {
  auto const values = fmt::format("{}", fmt::join(names, "|"));
  auto const take = [&value, names, values](std::string const& text) {
    if (std::ranges::find(names, text) == names.end()) return fmt::format("found '{}', expected {}", text, values);
    value = text;
    return std::string();
  };
  return {name, values, help, take};
}

OptionKey text_key(std::string const& name, std::string& value, std::string const& values, std::string const& help) {
  auto const take = [&value](std::string const& text) {
    value = text;
    return text.empty() ? std::string("found an empty value") : std::string();
  };
  return {name, values, help, take};
}

OptionKey memory_key(std::string const& name, std::optional<std::size_t>& bytes, std::string const& help) {
  auto const take = [&bytes](std::string text) {
    double gibibytes = 0.0;
    auto complaint = above_zero()(text);
    if (complaint.empty() && CLI::detail::lexical_cast(text, gibibytes)) bytes = capped_integer(gibibytes * 0x1p30);
    return complaint;
  };
  return {name, "GIB", help, take};
}

CLI::Option* OptionGroup::add_keys(std::string const& name, std::vector<OptionKey> const& keys, std::string help,
                                   std::string* first, std::vector<std::string> const& names) const {
  std::string all;
  for (auto const& key : keys) {
    help += fmt::format("\n  {}={}: {}", key.name, key.values, key.help);
    all += fmt::format("{}{}={}", all.empty() ? "" : ", ", key.name, key.values);
  }
  auto const take = [name, keys, all, first](std::string const& text) {
    std::vector<std::pair<OptionKey const*, std::string>> values;
    for (auto const& part : CLI::detail::split(text, ',')) {
      auto const equals = part.find('=');
      auto const key = std::ranges::find(keys, part.substr(0, equals), &OptionKey::name);
      if (equals != std::string::npos && key != keys.end()) {
        values.emplace_back(&*key, part.substr(equals + 1));
      } else if (equals == std::string::npos && !values.empty() && values.back().first->takes_list) {
        values.back().second += "," + part;
      } else if (equals == std::string::npos && first != nullptr) {
        *first = part;
      } else {
        throw CLI::ValidationError(name, fmt::format("found '{}', expected one of {}", part, all));
      }
    }
    for (auto const& [key, value] : values)
      if (auto const complaint = key->take(value); !complaint.empty())
        throw CLI::ValidationError(name, key->name + ": " + complaint);
  };
  auto const type = names.empty() ? std::string("KEY=VALUE") : fmt::format("{{{}}},KEY=VALUE", fmt::join(names, ","));
  auto* const option = command_.add_option_function<std::string>(name, take, help)->check(known_as(type))->join(',');
  if (first != nullptr && !first->empty()) option->default_str(*first);
  if (!title_.empty()) option->group(title_);
  return option;
}

void add_data(CLI::App& command, CommandFiles& files, std::string& network, std::string& input) {
  OptionGroup const shown(command);
  shown.reads(files, "--network", network, network_help)->required();
  shown.reads(files, "--input", input, input_help)->required();
}

void add_report(OptionGroup const& options, CommandFiles& files, std::string& report) {
  options.writes(files, "--report", report, Content::json, "write everything measured and decided as JSON");
}

void add_backend(CLI::App& command, std::string& backend, std::string const& condition) {
  std::vector<std::string> names;
  for (auto const one : compiled_backends()) names.push_back(to_string(one));
  OptionGroup(command).add("--backend", backend, condition + "where to compute", known(names));
}

void add_precision(OptionGroup const& options, std::string& precision, std::string const& condition) {
  options.add("--precision", precision, condition + "precision of the numbers that are computed",
              CLI::IsMember({"float", "double"}));
}

void add_tuning(CLI::App& command, std::vector<OptionKey> const& keys) {
  OptionGroup(command, "For studies").add_keys("--tuning", keys, "settings that only studies change:");
}

OptionKey share_devices_key(std::string& share_devices) {
  return name_key("share-devices", share_devices, {"off", "on"}, "several ranks may use one device");
}

void add_network_in_text(CLI::App& command, ChallengeOptions& options) {
  OptionGroup(command, "Networks in text")
      .add_keys("--text",
                {number_key("neurons", options.neurons, "N", "neurons of each layer, or of samples"),
                 number_key("layers", options.layers, "L", "number of layers to use"),
                 number_key("bias", options.bias, "B", "bias of every neuron"),
                 number_key("cap", options.cap, "C", "cap of the clipped ReLU")},
                "what a network or samples in text do not say; the challenge's networks have defaults:");
}

void add_engine_option(OptionGroup const& group, ComputingOptions& options, std::string const& name,
                       std::string const& condition) {
  auto const& one = engine_option(name);
  group.add("--" + name, options.named.*one.value, condition + one.help, known(one.names()));
}

OptionKey engine_key(ComputingOptions& options, std::string const& name) {
  auto const& one = engine_option(name);
  auto key = text_key(name, options.named.*one.value, fmt::format("{}", fmt::join(one.names(), "|")), one.help);
  key.takes_list = name == "formats";
  return key;
}

void add_computing_options(CLI::App& command, ComputingOptions& options, std::string const& condition) {
  add_backend(command, options.backend, condition);
  add_precision(OptionGroup(command), options.precision, condition);
  add_engine_option(OptionGroup(command, "Arithmetic"), options, "reductions", condition);
}

void add_batch(CLI::App& command, ComputingOptions& options) {
  OptionGroup(command, "Memory")
      .add("--batch", options.named.batch, "samples at a time (default: as many as fit and suit the speed of the rank)",
           above_zero());
}

void add_options(Json& report, ComputingOptions const& options) {
  report["precision"] = options.precision;
  for (auto const& one : engine_options()) report[one.key] = options.named.*one.value;
}

InferenceOptions engine_options(ComputingOptions const& options) {
  auto engine = to_private(options.named);
  engine.backend = parse_backend(options.backend);
  engine.precision = precision_of(options.precision);
  return engine;
}

Precision precision_of(std::string const& name) {
  return name == "double" ? Precision::double_precision : Precision::single_precision;
}

} // namespace varve
