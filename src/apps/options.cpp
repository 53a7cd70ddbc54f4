#include "apps/options.hpp"

#include "apps/standard_streams.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"

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

/// The key of a text KEY=VALUE that takes this value; null if there is none.
TuningKey const* key_of(std::vector<TuningKey> const& keys, std::string const& text) {
  auto const found = std::ranges::find_if(keys, [&](TuningKey const& key) {
    return text.starts_with(key.name + "=") &&
           std::ranges::find(key.values, text.substr(key.name.size() + 1)) != key.values.end();
  });
  return found == keys.end() ? nullptr : &*found;
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

std::vector<std::string> CommandFiles::output_options() const {
  std::vector<std::string> options;
  for (auto const& file : all_)
    if (file.content) options.push_back(file.option);
  return options;
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

CLI::Validator above_zero() {
  return number_validator([](double number) { return number > 0.0; }, "above 0", "ABOVE 0");
}

CLI::Validator at_least_zero() {
  return number_validator([](double number) { return number >= 0.0; }, "from 0 on", "FROM 0");
}

CLI::Validator known(std::vector<std::string> const& names) {
  return CLI::Validator([](std::string&) { return std::string(); }, fmt::format("{{{}}}", fmt::join(names, ",")));
}

void add_tuning(CLI::App& command, std::vector<TuningKey> const& keys) {
  std::string help = "for studies, may be repeated:";
  std::string all;
  for (auto const& key : keys) {
    auto const values = fmt::format("{}={}", key.name, fmt::join(key.values, "|"));
    help += fmt::format("\n  {}: {}", values, key.help);
    all += (all.empty() ? "" : ", ") + values;
  }
  auto const complaint = [keys, all](std::string const& text) {
    return key_of(keys, text) != nullptr ? std::string() : fmt::format("found '{}', expected one of {}", text, all);
  };
  auto const take = [keys](std::vector<std::string> const& texts) {
    for (auto const& text : texts) {
      auto const& key = *key_of(keys, text);
      key.take(text.substr(key.name.size() + 1));
    }
  };
  command.add_option_function<std::vector<std::string>>("--tuning", take, help)
      ->check(CLI::Validator(complaint, "KEY=VALUE"))
      ->allow_extra_args(false)
      ->group("For studies");
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

void add_share_devices(CLI::App& command, bool& share_devices) {
  OptionGroup(command, "Several ranks").add("--share-devices", share_devices, "several ranks may use one device");
}

void add_network_in_text(CLI::App& command, ChallengeOptions& options) {
  OptionGroup const text(command, "Networks in text");
  text.add("--neurons", options.neurons, "neurons per layer, for a network in text");
  text.add("--layers", options.layers, "number of layers to use, for a network in text");
  text.add("--bias", options.bias, "bias of every neuron, for a network in text");
  text.add("--cap", options.cap, "cap of the clipped ReLU, for a network in text");
}

std::optional<std::size_t> bytes_of(std::optional<double> const& gibibytes) {
  if (!gibibytes) return std::nullopt;
  return capped_integer(*gibibytes * 0x1p30);
}

void add_engine_options(CLI::App& command, ComputingOptions& options, OptionKind kind, std::string const& except,
                        std::string const& condition) {
  OptionGroup const group(command, kind == OptionKind::arithmetic ? "Arithmetic" : "For studies");
  for (auto const& one : engine_options())
    if (one.kind == kind && one.name != except)
      group.add("--" + std::string(one.name), options.named.*one.value, condition + one.help, known(one.names()));
}

void add_computing_options(CLI::App& command, ComputingOptions& options, std::string const& condition) {
  add_backend(command, options.backend, condition);
  add_precision(OptionGroup(command), options.precision, condition);
  add_engine_options(command, options, OptionKind::arithmetic, "", condition);
}

void add_batch(CLI::App& command, ComputingOptions& options) {
  OptionGroup(command, "Memory")
      .add("--batch", options.batch, "samples at a time (default: as many as fit and suit the speed of the rank)",
           above_zero());
}

void add_options(Json& report, ComputingOptions const& options) {
  report["precision"] = options.precision;
  for (auto const& one : engine_options()) report[one.key] = options.named.*one.value;
}

InferenceOptions engine_options(ComputingOptions const& options) {
  InferenceOptions engine;
  engine.backend = parse_backend(options.backend);
  engine.precision = precision_of(options.precision);
  engine.batch = options.batch;
  set_named(engine, options.named);
  return engine;
}

Precision precision_of(std::string const& name) {
  return name == "double" ? Precision::double_precision : Precision::single_precision;
}

} // namespace varve
